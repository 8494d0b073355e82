// The sum of squared distances from a mean that is not known yet.

// chunk: Moments observed about_mean merged met
// Of `count` terms the sum of their distances from `shift`, and that of the squares of these. A thread
// shifts by its first term, and what is merged by its mean, rounded: so neither a large mean nor a
// stray first term costs digits. Distances between means are those of the shifts and of what is left
// beside them; how they add to the squares is due to Chan, Golub and LeVeque (1979).
template <class T>
struct Moments {
  T shift, sum, squares;
  int count;
};
template <class T>
TF_FN Moments<T> observed(Moments<T> so_far, T x) {
  if (so_far.count == 0) so_far.shift = x;
  const T distance = x - so_far.shift;
  so_far.sum += distance;
  so_far.squares += distance * distance;
  ++so_far.count;
#ifndef TF_HOST
  __builtin_assume(so_far.count > 0);  // of the terms of a vector only the first is asked
#endif
  return so_far;
}
template <class T>
TF_FN T about_mean(Moments<T> x) {
  if (x.count == 0) return T(0);
  const T squares = x.squares - x.sum * (x.sum / T(x.count));
  return squares < T(0) ? T(0) : squares;
}
template <class T>
TF_FN Moments<T> merged(Moments<T> a, Moments<T> b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const T count = T(a.count) + T(b.count), share = T(b.count) / count;
  const T own = a.sum / T(a.count), other = b.sum / T(b.count);  // means beside the shifts
  const T distance = (b.shift - a.shift) + (other - own), mean = own + distance * share;
  const T shift = a.shift + mean, rest = mean - (shift - a.shift);
  const T between = distance * distance * T(a.count) * share;
  const T squares = tf::about_mean(a) + tf::about_mean(b) + between;
  return {shift, rest * count, squares + rest * rest * count, a.count + b.count};
}
// All that WIDTH neighbouring threads have, merged about one mean: that of their means, by their counts.
// Every thread of the warp takes part.
template <int WIDTH, class T>
TF_FN Moments<T> met(Moments<T> x) {
  int count = x.count;
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) count += __shfl_xor_sync(0xffffffffu, count, mask);
  const T own = x.count ? x.sum / T(x.count) : T(0);  // beside the shift
  T mean = x.count ? (x.shift + own) * (T(x.count) / T(count)) : T(0);
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) mean += __shfl_xor_sync(0xffffffffu, mean, mask);
  const T distance = (x.shift - mean) + own;
  T sum = T(x.count) * distance, squares = tf::about_mean(x) + sum * distance;
  if (x.count == 0) sum = squares = T(0);
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    squares += __shfl_xor_sync(0xffffffffu, squares, mask);
  }
  return {mean, sum, squares, count};
}
template <class T>
TF_FN Moments<T> shuffle_xor(Moments<T> x, int mask) {
  return {__shfl_xor_sync(0xffffffffu, x.shift, mask), __shfl_xor_sync(0xffffffffu, x.sum, mask),
          __shfl_xor_sync(0xffffffffu, x.squares, mask), __shfl_xor_sync(0xffffffffu, x.count, mask)};
}
