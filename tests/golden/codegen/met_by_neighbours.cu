extern "C" __global__ void __launch_bounds__(192)
kernel(const float* __restrict__ T0, float* __restrict__ T5, float* __restrict__ T1) {
  const int part = threadIdx.x % 4;
  const int wanted = blockIdx.x * 48 + threadIdx.x / 4;
  const bool is_active = wanted < 120;
  const int group = is_active ? wanted : 120 - 1;
  tf::Vec<float, 2> v0[12];
#pragma unroll
  for (int k = 0; k < 12; ++k) {
    const int vector = k * 4 + part;
    if ((k + 1) * 4 <= 45 || vector < 45) {
      v0[k] = tf::load<float, 2, 8>(T0 + (90 * group + 2 * vector));
    }
  }
  float T1_part = float(0);
#pragma unroll
  for (int k = 0; k < 12; ++k) {
    const int vector = k * 4 + part;
    if ((k + 1) * 4 <= 45 || vector < 45) {
#pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        const float T0_0 = v0[k].v[lane];
        T1_part = T1_part + T0_0;
      }
    }
  }
  T1_part = tf::warp_reduce<4>(T1_part, [](float a, float b) -> float { return a + b; });
  const float T1_row = T1_part;
  float T2_part = float(0);
  T2_part = T2_part + T1_row;
  __shared__ float T2_parts[48];
  if (part == 0) T2_parts[threadIdx.x / 4] = T2_part;
  __syncthreads();
  const float T2_row = tf::combine_warps<3>(T2_parts + threadIdx.x / 4 / 3 * 3, [](float a, float b) -> float { return a + b; });
  if (is_active) {
#pragma unroll
    for (int k = 0; k < 12; ++k) {
      const int vector = k * 4 + part;
      if ((k + 1) * 4 <= 45 || vector < 45) {
        tf::Vec<float, 2> w0;
#pragma unroll
        for (int lane = 0; lane < 2; ++lane) {
          const float T0_1 = v0[k].v[lane];
          const float T5_0 = T0_1 - T2_row;
          w0.v[lane] = tf::convert<float>(T5_0);
        }
        tf::store_hinted<8>(T5 + (90 * group + 2 * vector), w0, 0);
      }
    }
  }
  if (is_active) {
    if (part == 0) {
      tf::Vec<float, 1> w0;
      w0.v[0] = tf::convert<float>(T1_row);
      tf::store_hinted<4>(T1 + (group), w0, 0);
    }
  }
}
