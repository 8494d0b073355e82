extern "C" __global__ void __launch_bounds__(256, 1)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T4, tf::bf16* __restrict__ T7) {
  const int part = threadIdx.x % 16;
  const int side = threadIdx.x / 16;
  const int group = blockIdx.x;
  float T7_part[1][8];
#pragma unroll
  for (int k = 0; k < 1; ++k)
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T7_part[k][lane] = float(0);
#pragma unroll 1
  for (int first = 0; first < 5; first += 4) {
    tf::Vec<tf::bf16, 8> v0_turns[4][1];
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int turn = first + b;
      if (turn < 5) {
#pragma unroll
        for (int k = 0; k < 1; ++k) {
          const int vector = k * 16 + part;
          if ((k + 1) * 16 <= 12 || vector < 12) {
            v0_turns[b][k] = tf::load<tf::bf16, 8, 16>(T0 + (6144 * turn + 1536 * group + 96 * side + 8 * vector));
          }
        }
      }
    }
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int turn = first + b;
      if (turn < 5) {
        const auto& v0 = v0_turns[b];
        float T1_part = float(0);
#pragma unroll
        for (int k = 0; k < 1; ++k) {
          const int vector = k * 16 + part;
          if ((k + 1) * 16 <= 12 || vector < 12) {
#pragma unroll
            for (int lane = 0; lane < 8; ++lane) {
              const float T0_0 = tf::convert<float>(v0[k].v[lane]);
              T1_part = T1_part + T0_0;
            }
          }
        }
        T1_part = tf::warp_reduce<16>(T1_part, [](float a, float b) -> float { return a + b; });
        const float T1_row = T1_part;
#pragma unroll
        for (int k = 0; k < 1; ++k) {
          const int vector = k * 16 + part;
          if ((k + 1) * 16 <= 12 || vector < 12) {
            tf::Vec<tf::bf16, 8> w0;
#pragma unroll
            for (int lane = 0; lane < 8; ++lane) {
              const float T0_1 = tf::convert<float>(v0[k].v[lane]);
              const float T4_0 = T0_1 - T1_row;
              w0.v[lane] = tf::convert<tf::bf16>(T4_0);
              T7_part[k][lane] = T7_part[k][lane] + T0_1;
            }
            tf::store_hinted<16>(T4 + (6144 * turn + 1536 * group + 96 * side + 8 * vector), w0, 0);
          }
        }
      }
    }
  }
  TF_DYNAMIC_SHARED(unsigned char, shared);
  float* const T7_parts = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int k = 0; k < 1; ++k)
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T7_part[k][lane] = tf::combine_sides<16>(T7_part[k][lane], [](float a, float b) -> float { return a + b; });
  if (threadIdx.x % 32 < 16) {
#pragma unroll
    for (int k = 0; k < 1; ++k)
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) T7_parts[((threadIdx.x / 32 * 1 + k) * 8 + lane) * 16 + part] = T7_part[k][lane];
  }
  __syncthreads();
  if (side == 0) {
    for (int other = 1; other < 8; ++other) {
#pragma unroll
      for (int k = 0; k < 1; ++k)
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) T7_part[k][lane] = T7_part[k][lane] + T7_parts[((other * 1 + k) * 8 + lane) * 16 + part];
    }
  }
  if (side == 0) {
#pragma unroll
    for (int k = 0; k < 1; ++k) {
      const int vector = k * 16 + part;
      if ((k + 1) * 16 <= 12 || vector < 12) {
        tf::Vec<tf::bf16, 8> w0;
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          w0.v[lane] = tf::convert<tf::bf16>(T7_part[k][lane]);
        }
        tf::store_hinted<16>(T7 + (96 * group + 8 * vector), w0, 0);
      }
    }
  }
}
