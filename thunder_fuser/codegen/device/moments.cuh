// The sum of squared distances from a mean that is not known yet.

// chunk: Moments observed about_mean merged
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
template <class T>
TF_FN Moments<T> shuffle_xor(Moments<T> x, int mask) {
  return {__shfl_xor_sync(0xffffffffu, x.shift, mask), __shfl_xor_sync(0xffffffffu, x.sum, mask),
          __shfl_xor_sync(0xffffffffu, x.squares, mask), __shfl_xor_sync(0xffffffffu, x.count, mask)};
}
