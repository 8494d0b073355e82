// What the blocks of a cluster, which run at the same time, send each other.
//
// Every thread arrives once its block expects mail, and waits before it sends any: then all blocks have
// begun. Mail is counted where it arrives, by bytes. So a block that has all it expects knows that the
// others need nothing of it any more, and may end: unless it sent stretches, which are read of its own
// memory meanwhile, so that all arrive once more with what they expect and wait before they end. There is
// no other barrier: one that makes writes visible in the cluster stalls until everything that its threads
// ever asked of memory is done.

// chunk: cluster_arrive cluster_wait
TF_FN void cluster_arrive() {
#ifdef TF_HOST
  tf_host::arrive_at_cluster();
#else
  asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
TF_FN void cluster_wait() {
#ifdef TF_HOST
  tf_host::await_cluster();
#else
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// chunk: Mailbox open_mail expect_mail send_mail await_mail
// In shared memory: counts the bytes that a block still expects, delivery by delivery.
#ifdef TF_HOST
typedef tf_host::Mailbox Mailbox;
#else
struct Mailbox {
  unsigned long long barrier;
  TF_FN unsigned place() const { return static_cast<unsigned>(__cvta_generic_to_shared(&barrier)); }
};
#endif
// One thread of the block does this, before all of them arrive.
TF_FN void open_mail(Mailbox& mail) {
#ifdef TF_HOST
  mail = {0, 0};
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mail.place()) : "memory");
#endif
}
// That thread expects a delivery: the first before it arrives, each other when it has the one before, and
// before its block sends anything that the others wait for before they send the next one.
TF_FN void expect_mail(Mailbox& mail, unsigned bytes) {
#ifdef TF_HOST
  mail.missing = bytes;
  mail.deliveries += !bytes;
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mail.place()), "r"(bytes)
               : "memory");
#endif
}
// Write `value`, of 4 or 8 bytes, to block `rank` of the cluster, where it goes to `place` and is
// counted in `mail`: two of this block's own variables, which lie alike there.
template <class T>
TF_FN void send_mail(T* place, T value, Mailbox& mail, unsigned rank) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "mail is a word or two");
#ifdef TF_HOST
  tf_host::send(place, value, &mail, rank);
#else
  unsigned there = static_cast<unsigned>(__cvta_generic_to_shared(place)), count = mail.place();
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(count) : "r"(rank));
  if constexpr (sizeof(T) == 4) {
    union { T from; unsigned to; } bits = {value};
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
                 "r"(bits.to), "r"(count) : "memory");
  } else {
    union { T from; unsigned long long to; } bits = {value};
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there),
                 "l"(bits.to), "r"(count) : "memory");
  }
#endif
}
// What was sent is there for every thread that comes back from this. Of a mailbox that serves more than
// once the first delivery is even, the next one odd.
TF_FN void await_mail(const Mailbox& mail, unsigned is_odd = 0) {
#ifdef TF_HOST
  tf_host::await_mail(&mail, is_odd);
#else
  unsigned is_complete;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(is_complete) : "r"(mail.place()), "r"(is_odd) : "memory");
  } while (!is_complete);
#endif
}
