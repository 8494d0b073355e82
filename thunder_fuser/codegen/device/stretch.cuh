// Stretches of memory that come to shared memory and go back, or to another block's, in one piece. One
// thread asks for all of a block's: the engine that copies them is there wherever clusters are.

// chunk: copy_stretch
// So many elements, a multiple of 16 bytes or none, to shared memory. They are counted in `mail`, which
// expects them.
template <class T>
TF_FN void copy_stretch(T* to, const T* from, int count, tf::Mailbox& mail) {
  const unsigned bytes = count * unsigned(sizeof(T));
  if (!bytes) return;
#ifdef TF_HOST
  tf_host::deliver(to, from, bytes, &mail);
#else
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(mail.place()) : "memory");
#endif
}

// chunk: show_stretches store_stretch await_stores
// What a thread wrote to shared memory is there for stores behind the next barrier.
TF_FN void show_stretches() {
#ifndef TF_HOST
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// So many elements, a multiple of 16 bytes or none, from shared memory.
template <class T>
TF_FN void store_stretch(T* to, const T* from, int count) {
  const unsigned bytes = count * unsigned(sizeof(T));
  if (!bytes) return;
#ifdef TF_HOST
  tf_host::copy(to, from, bytes);
#else
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(static_cast<unsigned>(__cvta_generic_to_shared(from))), "r"(bytes) : "memory");
#endif
}
// The thread that asked for stores waits until shared memory was read for all of them but the last N.
template <int N = 0>
TF_FN void await_stores() {
#ifndef TF_HOST
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
#endif
}

// chunk: send_stretch
// So many elements of `place`, whole 16 bytes, to the same place of block `rank` of the cluster, where
// they are counted in `mail`. What threads wrote there they show, and meet, before.
template <class T>
TF_FN void send_stretch(T* place, int count, tf::Mailbox& mail, unsigned rank) {
  const unsigned bytes = count * unsigned(sizeof(T));
#ifdef TF_HOST
  tf_host::send_bytes(place, place, bytes, &mail, rank);
#else
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(place));
  unsigned there = from, counted = mail.place();
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(counted) : "r"(rank));
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   there),
               "r"(from), "r"(bytes), "r"(counted) : "memory");
#endif
}
