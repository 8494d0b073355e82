// How many terms equal an extremum that is not known yet.

// chunk: Equals farther counted beside count_of all_equals
// Of terms so far the largest, or the least, and how many equal it: any number if it is NaN.
template <bool LARGEST>
struct Equals {
  float extremum;
  int count;
};
template <bool LARGEST>
TF_FN float farther(float a, float b) { return LARGEST ? tf::maximum(a, b) : tf::minimum(a, b); }
template <bool LARGEST>
TF_FN Equals<LARGEST> counted(Equals<LARGEST> so_far, float x) {
  const float extremum = tf::farther<LARGEST>(so_far.extremum, x);
  return {extremum, (so_far.extremum == extremum ? so_far.count : 0) + (x == extremum)};
}
// Of several terms, whose extremum is found before any is counted.
template <bool LARGEST, int N>
TF_FN Equals<LARGEST> counted(Equals<LARGEST> so_far, const float (&terms)[N]) {
  float extremum = so_far.extremum;
#pragma unroll
  for (int k = 0; k < N; ++k) extremum = tf::farther<LARGEST>(extremum, terms[k]);
  int count = so_far.extremum == extremum ? so_far.count : 0;
#pragma unroll
  for (int k = 0; k < N; ++k) count += terms[k] == extremum;
  return {extremum, count};
}
template <bool LARGEST>
TF_FN Equals<LARGEST> beside(Equals<LARGEST> a, Equals<LARGEST> b) {
  const float extremum = tf::farther<LARGEST>(a.extremum, b.extremum);
  const int count = a.extremum == extremum ? a.count : 0;
  return {extremum, count + (b.extremum == extremum ? b.count : 0)};
}
template <bool LARGEST>
TF_FN int count_of(Equals<LARGEST> x) { return x.extremum == x.extremum ? x.count : 0; }
template <bool LARGEST>
TF_FN Equals<LARGEST> shuffle_xor(Equals<LARGEST> x, int mask) {
  return {__shfl_xor_sync(0xffffffffu, x.extremum, mask), __shfl_xor_sync(0xffffffffu, x.count, mask)};
}
// Those of WIDTH neighbouring threads. Every thread of the warp takes part.
template <int WIDTH, bool LARGEST>
TF_FN Equals<LARGEST> all_equals(Equals<LARGEST> x) {
  float extremum = x.extremum;
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2)
    extremum = tf::farther<LARGEST>(extremum, __shfl_xor_sync(0xffffffffu, extremum, mask));
  int count = x.extremum == extremum ? x.count : 0;
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) count += __shfl_xor_sync(0xffffffffu, count, mask);
  return {extremum, count};
}
