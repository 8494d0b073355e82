extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T4) {
  const int part = threadIdx.x % 64;
  const int wanted = blockIdx.x * 2 + threadIdx.x / 64;
  const bool is_active = wanted < 6;
  const int group = is_active ? wanted : 6 - 1;
  tf::Vec<tf::bf16, 8> v0[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int vector = k * 64 + part;
    v0[k] = tf::load<tf::bf16, 8, 16>(T0 + (2048 * group + 8 * vector));
  }
  float T2_scan[4][8];
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T2_scan[k][lane] = float(0);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int vector = k * 64 + part;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T0_0 = tf::convert<float>(v0[k].v[lane]);
      const float T1_0 = T0_0 * 2.0f;
      T2_scan[k][lane] = T2_scan[k][lane] + T1_0;
    }
  }
  __shared__ float T2_scan_sums[16];
  tf::scan_row<64, false>(T2_scan, T2_scan_sums + threadIdx.x / 64 * 8, part, float(0), float(0), [](float a, float b) -> float { return a + b; });
  if (is_active) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int vector = k * 64 + part;
      tf::Vec<tf::bf16, 8> w0;
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const float T3_0 = -T2_scan[k][lane];
        w0.v[lane] = tf::convert<tf::bf16>(T3_0);
      }
      tf::store_hinted<16>(T4 + (2048 * group + 8 * vector), w0, 0);
    }
  }
}
