// Blocks that share a reduction.

// chunk: draw
// How many drew this ticket before, `count` in all, after whom it is 0 again. What the thread wrote or
// met at a barrier before is visible to who draws the last one, once that has a fence behind it. A
// fence before it would do too, but waits longer, and empties the cache of the multiprocessor.
TF_FN unsigned draw(unsigned* ticket, unsigned count) {
#ifdef TF_HOST
  return atomicInc(ticket, count - 1);
#else
  unsigned before;
  asm volatile("atom.release.gpu.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(ticket), "r"(count - 1)
               : "memory");
  return before;
#endif
}

// chunk: is_last
// True in the block that is the last of `count` to come here, and what the others wrote before is
// visible to it then. Every thread of a block calls it; `found` is shared by them. `ticket` is 0 before
// and after.
TF_FN bool is_last(bool& found, unsigned* ticket, unsigned count) {
  __syncthreads();
  if (threadIdx.x == 0) {
    found = tf::draw(ticket, count) == count - 1;
    if (found) __threadfence();
  }
  __syncthreads();
  return found;
}

// chunk: is_last_warp
// The same for warps, with what their first threads wrote. Every thread of a warp calls it.
TF_FN bool is_last_warp(unsigned* ticket, unsigned count) {
  unsigned before = 0;
  if (threadIdx.x % 32 == 0) before = tf::draw(ticket, count);
  const bool found = __shfl_sync(0xffffffffu, before, 0) == count - 1;
  if (found) __threadfence();
  return found;
}

// chunk: turn_of_block
// The number of a block among `count`, behind all those that may wait for none of its own: GPUs begin
// blocks in the order of their numbers. Every thread of the block calls it.
TF_FN unsigned turn_of_block(unsigned& drawn, unsigned* ticket, unsigned count) {
#ifdef TF_HOST
  if (threadIdx.x == 0) drawn = tf::draw(ticket, count);
  __syncthreads();
  return drawn;
#else
  return blockIdx.x;
#endif
}

// chunk: mark await_mark
// What threads wrote before they met this one at a barrier is there for those who await the mark, and
// for who meets them at a barrier then.
TF_FN void mark(unsigned* place) {
#ifdef TF_HOST
  *place = 1;
#else
  asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(place) : "memory");
#endif
}
TF_FN void await_mark(unsigned* place) {
#ifndef TF_HOST
  unsigned found;
  do {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(found) : "l"(place) : "memory");
  } while (found == 0);
#endif
}
