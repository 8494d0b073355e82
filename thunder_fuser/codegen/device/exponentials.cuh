// The sum of exponentials below a maximum that is not known yet.

// chunk: Exponentials below below_both below_finite
// Of terms so far the largest finite one or what is above all of them, inf or NaN, and the sum of
// exp(term - top). That is any number where `top` is no finite one.
struct Exponentials {
  float top = -3.402823466e38f, sum = 0.0f;
};
TF_FN Exponentials below(Exponentials so_far, float x) {
  const float distance = x - so_far.top, other = tf::fast_exp(-tf::abs(distance));
  const bool is_top = distance > 0.0f;
  const float sum = __fmaf_rn(so_far.sum, is_top ? other : 1.0f, is_top ? 1.0f : other);
  return {tf::maximum(so_far.top, x), sum};
}
// Of several terms, for all of which the sum is scaled once.
template <int N>
TF_FN Exponentials below(Exponentials so_far, const float (&terms)[N]) {
  float top = so_far.top;
#pragma unroll
  for (int k = 0; k < N; ++k) top = tf::maximum(top, terms[k]);
  float sum = so_far.sum * tf::fast_exp(so_far.top - top);
#pragma unroll
  for (int k = 0; k < N; ++k) sum += tf::fast_exp(terms[k] - top);
  return {top, sum};
}
TF_FN Exponentials below_both(Exponentials a, Exponentials b) {
  const float distance = b.top - a.top, other = tf::fast_exp(-tf::abs(distance));
  const bool is_top = distance > 0.0f;
  const float sum = __fmaf_rn(is_top ? a.sum : b.sum, other, is_top ? b.sum : a.sum);
  return {tf::maximum(a.top, b.top), sum};
}
TF_FN float below_finite(Exponentials x) { return tf::isfinite(x.top) ? x.sum : x.top; }
TF_FN Exponentials shuffle_xor(Exponentials x, int mask) {
  return {__shfl_xor_sync(0xffffffffu, x.top, mask), __shfl_xor_sync(0xffffffffu, x.sum, mask)};
}
