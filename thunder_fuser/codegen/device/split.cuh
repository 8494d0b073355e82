// Blocks that share a reduction.

// chunk: is_last
// True in the block that is the last of `count` to come here, and what the others wrote before is
// visible to it then. Every thread of a block calls it; `found` is shared by them. `ticket` is 0 before
// and after.
TF_FN bool is_last(bool& found, unsigned* ticket, unsigned count) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // for all threads of the block, which wrote before the barrier
    found = atomicInc(ticket, count - 1) == count - 1;
    if (found) __threadfence();
  }
  __syncthreads();
  return found;
}
