// Reductions over the threads of a warp and the warps of a block, in a fixed order.

// chunk: shuffle_xor warp_reduce
// The value combined over WIDTH neighbouring threads, a power of two; all of them get it. Every thread
// of the warp takes part.
template <class T>
TF_FN T shuffle_xor(T x, int mask) {
  if constexpr (sizeof(T) < 4)
    return static_cast<T>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask));
  else
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <int WIDTH, class T, class Combine>
TF_FN T warp_reduce(T x, Combine combine) {
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) x = combine(x, tf::shuffle_xor(x, mask));
  return x;
}

// chunk: combine_warps
// One value per warp, combined from left to right by every thread.
template <int WARPS, class T, class Combine>
TF_FN T combine_warps(const T* values, Combine combine) {
  T x = values[0];
#pragma unroll
  for (int k = 1; k < WARPS; ++k) x = combine(x, values[k]);
  return x;
}
