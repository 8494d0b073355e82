// Maxima and exponential sums of rows and of columns, of one read.

// chunk: Rows Vectors clear term_of not_kept largest
// What a thread has of N rows, WIDTH columns: terms, or vectors of which they are the elements.
template <int WIDTH, int N>
struct Rows {
  float v[WIDTH][N];
};
template <class T, int WIDTH, int N>
struct Vectors {
  tf::Vec<T, WIDTH> v[N];
};
// As of rows that there are not.
template <int WIDTH, int N>
TF_FN void clear(Rows<WIDTH, N>& rows) {
#pragma unroll
  for (int lane = 0; lane < WIDTH; ++lane)
#pragma unroll
    for (int k = 0; k < N; ++k) rows.v[lane][k] = tf::lowest<float>();
}
template <class T, int WIDTH, int N>
TF_FN void clear(Vectors<T, WIDTH, N>& rows) {
#pragma unroll
  for (int k = 0; k < N; ++k)
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane)
      rows.v[k].v[lane] = tf::convert<T>(tf::lowest<float>());
}
template <int WIDTH, int N>
TF_FN float term_of(const Rows<WIDTH, N>& rows, int lane, int k) {
  return rows.v[lane][k];
}
template <class T, int WIDTH, int N>
TF_FN float term_of(const Vectors<T, WIDTH, N>& rows, int lane, int k) {
  return tf::convert<float>(rows.v[k].v[lane]);
}
// The same, which the compiler takes for others: what was converted of them needs no registers.
template <int WIDTH, int N>
TF_FN Rows<WIDTH, N> not_kept(const Rows<WIDTH, N>& rows) {
  return rows;
}
template <class T, int WIDTH, int N>
TF_FN Vectors<T, WIDTH, N> not_kept(Vectors<T, WIDTH, N> rows) {
#ifndef TF_HOST
#pragma unroll
  for (int k = 0; k < N; ++k) {
#pragma unroll
    for (int lane = 0; lane < WIDTH; lane += 2) {
      unsigned pair = static_cast<unsigned>(rows.v[k].v[lane + 1].data) << 16 | rows.v[k].v[lane].data;
      asm volatile("" : "+r"(pair));
      rows.v[k].v[lane].data = static_cast<unsigned short>(pair);
      rows.v[k].v[lane + 1].data = static_cast<unsigned short>(pair >> 16);
    }
  }
#endif
  return rows;
}
// The largest element of each row, and of each column with these rows.
template <int WIDTH, int N>
TF_FN void largest(float (&most)[N], float (&tops)[WIDTH], const Rows<WIDTH, N>& rows) {
#pragma unroll
  for (int k = 0; k < N; ++k) most[k] = rows.v[0][k];
#pragma unroll
  for (int lane = 0; lane < WIDTH; ++lane) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      most[k] = tf::maximum(most[k], rows.v[lane][k]);
      tops[lane] = tf::maximum(tops[lane], rows.v[lane][k]);
    }
  }
}
template <class T, int WIDTH, int N>
TF_FN void largest(float (&most)[N], float (&tops)[WIDTH], const Vectors<T, WIDTH, N>& rows) {
  const auto larger = [](auto a, auto b) { return tf::maximum(a, b); };
  tf::Vec<T, WIDTH> highest = rows.v[0];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k > 0) highest = tf::in_pairs(highest, rows.v[k], larger);
    const tf::Vec<T, 2> first = {rows.v[k].v[0], rows.v[k].v[1]};
    const tf::Vec<T, 2> pair = tf::in_pairs(first, rows.v[k], larger);
    most[k] = tf::maximum(tf::convert<float>(pair.v[0]), tf::convert<float>(pair.v[1]));
  }
#pragma unroll
  for (int lane = 0; lane < WIDTH; ++lane)
    tops[lane] = tf::maximum(tops[lane], tf::convert<float>(highest.v[lane]));
}

// chunk: both_ways below_tops
// What a warp has of N rows, WIDTH columns a lane: the largest elements of the columns, and sums of
// exponentials below `top`, with these rows; and of row `lane / (32 / N)` what lies in the warp. All are
// raised once, below the largest of all, and what that makes of a column is moved to its own `top`,
// which stays. Where a sum of a row or of a column would come near the smallest floats, or the largest
// element is far above a `top`, both ways are raised by themselves. The sum of nothing but -inf is 0.
constexpr float log2_e = 1.44269504f, far_above = 29.0f, far_below = 0x1p-58f, smallest = 0x1p-86f;
template <int N, int WIDTH, class Values>
TF_FN Exponentials both_ways(Exponentials (&columns)[WIDTH], float (&tops)[WIDTH],
                             const Values& values, bool is_first) {
  const float nothing = -tf::infinity<float>();
  const auto larger = [](float a, float b) { return tf::maximum(a, b); };
  const auto added = [](float a, float b) { return a + b; };
  float rows[N], sums[WIDTH];
  tf::largest(rows, tops, values);
  const float top = tf::met_rows<N>(rows, larger);
  float most = top;
#pragma unroll
  for (int mask = 16; mask >= 32 / N; mask /= 2) most = larger(most, tf::shuffle_xor(most, mask));
  if (is_first) {
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) columns[lane].top = most;
  }
  const float scaled = most * log2_e;
  bool is_far = !(tf::abs(most) < 1e30f);  // beyond, distances may be infinite
#pragma unroll
  for (int k = 0; k < N; ++k) rows[k] = 0.0f;
#pragma unroll
  for (int lane = 0; lane < WIDTH; ++lane) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float raised = tf::fast_exp2(__fmaf_rn(tf::term_of(values, lane, k), log2_e, -scaled));
      rows[k] += raised;
      sum += raised;
    }
    const float above = __fmaf_rn(-columns[lane].top, log2_e, scaled);
    sums[lane] = __fmaf_rn(sum, tf::fast_exp2(above), columns[lane].sum);
    is_far |= (above > far_above) | ((sums[lane] < far_below) & (tops[lane] > nothing));
  }
  const float met = tf::met_rows<N>(rows, added);
  is_far |= (met < smallest) & (top > nothing);
  if (!__any_sync(0xffffffffu, is_far)) {
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) columns[lane].sum = sums[lane];
    return {top, met * tf::fast_exp2(tf::minimum(__fmaf_rn(-top, log2_e, scaled), 127.0f))};
  }
  const auto again = tf::not_kept(values);
  const float own = tf::maximum(top, Exponentials{}.top);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float below = __shfl_sync(0xffffffffu, own, k * (32 / N));
    rows[k] = 0.0f;
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) rows[k] += tf::fast_exp(tf::term_of(again, lane, k) - below);
  }
#pragma unroll
  for (int lane = 0; lane < WIDTH; ++lane) {
    if (columns[lane].sum == 0.0f) columns[lane] = Exponentials{};
    float terms[N];
#pragma unroll
    for (int k = 0; k < N; ++k) terms[k] = tf::term_of(again, lane, k);
    columns[lane] = tf::below(columns[lane], terms);
    if (tops[lane] == nothing && tf::abs(most) < 1e30f) columns[lane].top = most;
  }
  const float sum = tf::met_rows<N>(rows, added);
  return {top, tf::isfinite(own) ? sum : own};
}
// The sums of columns, below their largest elements.
template <int WIDTH>
TF_FN void below_tops(Exponentials (&columns)[WIDTH], const float (&tops)[WIDTH]) {
#pragma unroll
  for (int lane = 0; lane < WIDTH; ++lane) {
    const float top = tf::maximum(tops[lane], Exponentials{}.top);
    columns[lane].sum *= tf::fast_exp(tf::minimum(columns[lane].top - top, 87.0f));
    columns[lane].top = top;
  }
}
