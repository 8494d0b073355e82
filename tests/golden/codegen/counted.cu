extern "C" __global__ void __launch_bounds__(512, 1)
kernel(const tf::bf16* __restrict__ T0, float* __restrict__ T2, int* __restrict__ T3) {
  const int part = threadIdx.x / 2;
  const int place = threadIdx.x % 2;
  const int vector = (int)blockIdx.x * 2 + place;
  float T2_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T2_part[lane] = tf::lowest<float>();
  __shared__ float T2_parts[256][16];
  tf::Equals<true> T3_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_part[lane] = tf::Equals<true>{tf::lowest<float>(), 0};
  __shared__ tf::Equals<true> T3_parts[256][16];
  if (vector < 3) {
    int start = part;
    for (; start + 256 < 300; start += 512) {
      tf::Vec<tf::bf16, 8> v0_rows[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = start + k * 256;
        v0_rows[k] = tf::load_streaming<tf::bf16, 8, 16>(T0 + (24 * row + 8 * vector));
      }
      float T3_terms[8][2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = start + k * 256;
        const auto v0 = v0_rows[k];
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float T0_0 = tf::convert<float>(v0.v[lane]);
          T2_part[lane] = tf::maximum(T2_part[lane], T0_0);
          T3_terms[lane][k] = T0_0;
        }
      }
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) T3_part[lane] = tf::counted(T3_part[lane], T3_terms[lane]);
    }
    if (start < 300) {
      tf::Vec<tf::bf16, 8> v0_rows[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = start + k * 256;
        if (row < 300) {
          v0_rows[k] = tf::load_streaming<tf::bf16, 8, 16>(T0 + (24 * row + 8 * vector));
        }
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = start + k * 256;
        if (row < 300) {
          const auto v0 = v0_rows[k];
#pragma unroll
          for (int lane = 0; lane < 8; ++lane) {
            const float T0_0 = tf::convert<float>(v0.v[lane]);
            T2_part[lane] = tf::maximum(T2_part[lane], T0_0);
            T3_part[lane] = tf::counted(T3_part[lane], T0_0);
          }
        }
      }
    }
  }
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T2_parts[part][lane * 2 + place] = T2_part[lane];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_parts[part][lane * 2 + place] = T3_part[lane];
  __syncthreads();
  tf::combine_columns<512>(T2_parts, [](float a, float b) -> float { return tf::maximum(a, b); });
  tf::combine_columns<512>(T3_parts, [](tf::Equals<true> a, tf::Equals<true> b) -> tf::Equals<true> { return tf::beside(a, b); });
  if (vector < 3 && part == 0) {
    float T2_row[8];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T2_row[lane] = T2_parts[0][lane * 2 + place];
    int T3_row[8];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_row[lane] = tf::count_of(T3_parts[0][lane * 2 + place]);
    tf::Vec<float, 8> w0;
    tf::Vec<int, 8> w1;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      w0.v[lane] = tf::convert<float>(T2_row[lane]);
      w1.v[lane] = tf::convert<int>(T3_row[lane]);
    }
    tf::store<16>(T2 + (8 * vector), w0);
    tf::store<16>(T3 + (8 * vector), w1);
  }
}
