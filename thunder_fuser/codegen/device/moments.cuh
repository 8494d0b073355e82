// The sum of squared distances from a mean that is not known yet.

// chunk: Moments observed nearly_divided about_mean about merged met
// Of `count` terms the sum of their distances from `shift`, and that of the squares of these. A thread
// shifts by its first term, and what is merged by its mean, rounded: so neither a large mean nor a
// stray first term costs digits.
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
// Several terms, of which only the first may be the first of all.
template <int N, class T>
TF_FN Moments<T> observed(Moments<T> so_far, const T (&terms)[N]) {
  if (so_far.count == 0) so_far.shift = terms[0];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const T distance = terms[k] - so_far.shift;
    so_far.sum += distance;
    so_far.squares += distance * distance;
  }
  so_far.count += N;
#ifndef TF_HOST
  __builtin_assume(so_far.count > 0);
#endif
  return so_far;
}
#ifdef TF_HOST
template <class T>
TF_FN T nearly_divided(T x, T y) { return x / y; }
#else
TF_FN float nearly_divided(float x, float y) { return __fdividef(x, y); }
TF_FN double nearly_divided(double x, double y) { return x / y; }
#endif
template <class T>
TF_FN T about_mean(Moments<T> x) {
  if (x.count == 0) return T(0);
  const T squares = x.squares - x.sum * (x.sum / T(x.count));
  return squares < T(0) ? T(0) : squares;
}
// The same terms about another shift.
template <class T>
TF_FN Moments<T> about(Moments<T> x, T shift) {
  const T count = T(x.count), distance = x.shift - shift, moved = count * distance;
  return {shift, x.sum + moved, x.squares + distance * (x.sum + x.sum + moved), x.count};
}
// About the mean of `a`, or what is near it: every shift gives the same squares about the mean, and
// of one near the terms they have all digits.
template <class T>
TF_FN Moments<T> merged(Moments<T> a, Moments<T> b) {
  const T mean = a.count ? a.shift + tf::nearly_divided(a.sum, T(a.count)) : b.shift;
  a = tf::about(a, mean), b = tf::about(b, mean);
  return {mean, a.sum + b.sum, a.squares + b.squares, a.count + b.count};
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
