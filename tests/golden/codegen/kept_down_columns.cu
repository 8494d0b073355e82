extern "C" __global__ void __launch_bounds__(64)
kernel(tf::bf16* T0, tf::bf16* __restrict__ T5) {
  const int part = threadIdx.x / 2;
  const int place = threadIdx.x % 2;
  const int wanted = (int)blockIdx.x * 2 + place;
  const bool is_active = wanted < 9;
  const int vector = is_active ? wanted : 9 - 1;
  tf::Vec<tf::bf16, 8> v0[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 32 + part;
    if ((k + 1) * 32 <= 50 || row < 50) {
      v0[k] = tf::load<tf::bf16, 8, 16>(T0 + (1200 * (vector / 3) + 24 * row + 8 * (vector % 3)));
    }
  }
  float T1_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T1_part[lane] = float(0);
  __shared__ float T1_parts[2][16];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 32 + part;
    if ((k + 1) * 32 <= 50 || row < 50) {
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const float T0_0 = tf::convert<float>(v0[k].v[lane]);
        T1_part[lane] = T1_part[lane] + T0_0;
      }
    }
  }
  tf::meet_in_warp<2>(T1_part, T1_parts, [](float a, float b) -> float { return a + b; });
  __syncthreads();
  tf::combine_parts<64, 0>(T1_parts, [](float a, float b) -> float { return a + b; });
  __syncthreads();
  float T1_row[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T1_row[lane] = T1_parts[0][lane * 2 + place];
  float T5_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T5_part[lane] = tf::lowest<float>();
  __shared__ float T5_parts[2][16];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 32 + part;
    if ((k + 1) * 32 <= 50 || row < 50) {
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const float T0_1 = tf::convert<float>(v0[k].v[lane]);
        const float T4_0 = T0_1 - T1_row[lane];
        T5_part[lane] = tf::maximum(T5_part[lane], T4_0);
      }
    }
  }
  tf::meet_in_warp<2>(T5_part, T5_parts, [](float a, float b) -> float { return tf::maximum(a, b); });
  __syncthreads();
  tf::combine_parts<64, 0>(T5_parts, [](float a, float b) -> float { return tf::maximum(a, b); });
  __syncthreads();
  float T5_row[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T5_row[lane] = T5_parts[0][lane * 2 + place];
  if (is_active) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int row = k * 32 + part;
      if ((k + 1) * 32 <= 50 || row < 50) {
        tf::Vec<tf::bf16, 8> w0;
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float T0_2 = tf::convert<float>(v0[k].v[lane]);
          const float T4_1 = T0_2 - T1_row[lane];
          const float T8_0 = tf::fast_divided_by_row(T4_1, T5_row[lane]);
          w0.v[lane] = tf::convert<tf::bf16>(T8_0);
        }
        tf::store<16>(T0 + (1200 * (vector / 3) + 24 * row + 8 * (vector % 3)), w0);
      }
    }
  }
  if (is_active && part == 0) {
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      w0.v[lane] = tf::convert<tf::bf16>(T5_row[lane]);
    }
    tf::store<16>(T5 + (8 * vector), w0);
  }
}
