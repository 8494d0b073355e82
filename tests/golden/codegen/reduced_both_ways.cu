extern "C" __global__ void __launch_bounds__(256, 2)
kernel(const tf::bf16* __restrict__ T0, float* __restrict__ T2, float* __restrict__ T5, float* __restrict__ T7, float* __restrict__ T8, unsigned char* workspace, unsigned* tickets) {
  const int part = threadIdx.x / 32;
  const int place = threadIdx.x % 32;
  const int group = blockIdx.x % 8;
  const int split = blockIdx.x / 8;
  const int vector = (int)group * 32 + place;
  float T2_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T2_part[lane] = tf::lowest<float>();
  __shared__ float T2_parts[8][256];
  tf::Exponentials T3_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_part[lane] = tf::Exponentials{};
  __shared__ tf::Exponentials T3_parts[8][256];
  const int first = (int)split * 8;
  if (vector < 256) {
    int start = first + part;
    for (; start + 16 * 56 < 2048; start += 16 * 64) {
      tf::Vectors<tf::bf16, 8, 8> v0_rows;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int row = start + k * 16 * 8;
        v0_rows.v[k] = tf::load_streaming<tf::bf16, 8, 16>(T0 + (2048 * row + 8 * vector));
      }
      const auto T3_piece = tf::both_ways<8>(T3_part, T2_part, v0_rows, start == first + part);
      const int k = place / 4;
      const int row = start + k * 16 * 8;
      if (place % 4 == 0) {
        tf::Vec<float, 1> w0;
        tf::Vec<float, 1> w1;
        w0.v[0] = tf::convert<float>(T3_piece.sum);
        w1.v[0] = tf::convert<float>(T3_piece.top);
        tf::store<4>(T7 + (8 * row + (vector / 32)), w0);
        tf::store<4>(T8 + (8 * row + (vector / 32)), w1);
      }
    }
    if (start < 2048) {
      tf::Vectors<tf::bf16, 8, 8> v0_rows;
      tf::clear(v0_rows);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int row = start + k * 16 * 8;
        if (row < 2048) {
          v0_rows.v[k] = tf::load_streaming<tf::bf16, 8, 16>(T0 + (2048 * row + 8 * vector));
        }
      }
      const auto T3_piece = tf::both_ways<8>(T3_part, T2_part, v0_rows, start == first + part);
      const int k = place / 4;
      const int row = start + k * 16 * 8;
      if (place % 4 == 0 && row < 2048) {
        tf::Vec<float, 1> w0;
        tf::Vec<float, 1> w1;
        w0.v[0] = tf::convert<float>(T3_piece.sum);
        w1.v[0] = tf::convert<float>(T3_piece.top);
        tf::store<4>(T7 + (8 * row + (vector / 32)), w0);
        tf::store<4>(T8 + (8 * row + (vector / 32)), w1);
      }
    }
    tf::below_tops(T3_part, T2_part);
  }
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T2_parts[part][lane * 32 + place] = T2_part[lane];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_parts[part][lane * 32 + place] = T3_part[lane];
  __syncthreads();
  tf::combine_columns<256>(T2_parts, [](float a, float b) -> float { return tf::maximum(a, b); });
  tf::combine_columns<256>(T3_parts, [](tf::Exponentials a, tf::Exponentials b) -> tf::Exponentials { return tf::below_both(a, b); });
  float* const T2_splits = reinterpret_cast<float*>(workspace);
  tf::Exponentials* const T3_splits = reinterpret_cast<tf::Exponentials*>(workspace + 131072);
  if (part == 0) {
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T2_splits[((group * 16 + split) * 8 + lane) * 32 + place] = T2_parts[0][lane * 32 + place];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_splits[((group * 16 + split) * 8 + lane) * 32 + place] = T3_parts[0][lane * 32 + place];
  }
  __shared__ bool is_last;
  if (!tf::is_last(is_last, tickets + group, 16)) return;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T2_part[lane] = tf::lowest<float>();
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_part[lane] = tf::Exponentials{};
#pragma unroll 4
  for (int other = part; other < 16; other += 8) {
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T2_part[lane] = tf::maximum(T2_part[lane], T2_splits[((group * 16 + other) * 8 + lane) * 32 + place]);
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_part[lane] = tf::below_both(T3_part[lane], T3_splits[((group * 16 + other) * 8 + lane) * 32 + place]);
  }
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T2_parts[part][lane * 32 + place] = T2_part[lane];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_parts[part][lane * 32 + place] = T3_part[lane];
  __syncthreads();
  tf::combine_columns<256>(T2_parts, [](float a, float b) -> float { return tf::maximum(a, b); });
  tf::combine_columns<256>(T3_parts, [](tf::Exponentials a, tf::Exponentials b) -> tf::Exponentials { return tf::below_both(a, b); });
  if (vector < 256 && part == 0) {
    float T2_row[8];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T2_row[lane] = T2_parts[0][lane * 32 + place];
    float T3_row[8];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_row[lane] = tf::below_finite(T3_parts[0][lane * 32 + place]);
    tf::Vec<float, 8> w0;
    tf::Vec<float, 8> w1;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T4_0 = T2_row[lane] - T2_row[lane];
      const float T5_0 = T3_row[lane] + T4_0;
      w0.v[lane] = tf::convert<float>(T2_row[lane]);
      w1.v[lane] = tf::convert<float>(T5_0);
    }
    tf::store<16>(T2 + (8 * vector), w0);
    tf::store<16>(T5 + (8 * vector), w1);
  }
}
extern "C" __global__ void __launch_bounds__(128)
kernel(const float* __restrict__ T0, const float* __restrict__ T6, float* __restrict__ T1, float* __restrict__ T8) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 1024) return;
  const int i0 = thread;
  const auto v0 = tf::load<float, 16, 16>(T6 + (16 * i0));
  const auto v1 = tf::load<float, 16, 16>(T0 + (16 * i0));
  tf::Vec<float, 2> w0;
  tf::Vec<float, 2> w1;
#pragma unroll
  for (int lane = 0; lane < 2; ++lane) {
    const float T6_0 = v0.v[8 * lane];
    const float T6_1 = v0.v[8 * lane + 1];
    const float T6_2 = v0.v[8 * lane + 2];
    const float T6_3 = v0.v[8 * lane + 3];
    const float T6_4 = v0.v[8 * lane + 4];
    const float T6_5 = v0.v[8 * lane + 5];
    const float T6_6 = v0.v[8 * lane + 6];
    const float T6_7 = v0.v[8 * lane + 7];
    const float T0_0 = v1.v[8 * lane];
    const float T0_1 = v1.v[8 * lane + 1];
    const float T0_2 = v1.v[8 * lane + 2];
    const float T0_3 = v1.v[8 * lane + 3];
    const float T0_4 = v1.v[8 * lane + 4];
    const float T0_5 = v1.v[8 * lane + 5];
    const float T0_6 = v1.v[8 * lane + 6];
    const float T0_7 = v1.v[8 * lane + 7];
    const float T1_0 = (tf::maximum((tf::maximum((tf::maximum((tf::maximum((tf::maximum((tf::maximum((tf::maximum(T0_0, T0_1)), T0_2)), T0_3)), T0_4)), T0_5)), T0_6)), T0_7));
    const float T4_0 = T0_7 - T1_0;
    const float T4_1 = T0_6 - T1_0;
    const float T4_2 = T0_5 - T1_0;
    const float T4_3 = T0_4 - T1_0;
    const float T4_4 = T0_3 - T1_0;
    const float T4_5 = T0_2 - T1_0;
    const float T4_6 = T0_1 - T1_0;
    const float T4_7 = T0_0 - T1_0;
    const float T5_0 = tf::exp(T4_0);
    const float T5_1 = tf::exp(T4_1);
    const float T5_2 = tf::exp(T4_2);
    const float T5_3 = tf::exp(T4_3);
    const float T5_4 = tf::exp(T4_4);
    const float T5_5 = tf::exp(T4_5);
    const float T5_6 = tf::exp(T4_6);
    const float T5_7 = tf::exp(T4_7);
    const float T7_0 = T5_0 * T6_7;
    const float T7_1 = T5_1 * T6_6;
    const float T7_2 = T5_2 * T6_5;
    const float T7_3 = T5_3 * T6_4;
    const float T7_4 = T5_4 * T6_3;
    const float T7_5 = T5_5 * T6_2;
    const float T7_6 = T5_6 * T6_1;
    const float T7_7 = T5_7 * T6_0;
    const float T8_0 = (((((((T7_7 + T7_6) + T7_5) + T7_4) + T7_3) + T7_2) + T7_1) + T7_0);
    w0.v[lane] = tf::convert<float>(T1_0);
    w1.v[lane] = tf::convert<float>(T8_0);
  }
  tf::store_hinted<8>(T1 + (2 * i0), w0, 0);
  tf::store_hinted<8>(T8 + (2 * i0), w1, 0);
}
