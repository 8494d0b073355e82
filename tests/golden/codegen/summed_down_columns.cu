extern "C" __global__ void __launch_bounds__(32)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T2) {
  const int part = threadIdx.x / 32;
  const int place = threadIdx.x % 32;
  const int vector = (int)blockIdx.x * 32 + place;
  float T1_part[4];
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) T1_part[lane] = float(0);
  if (vector < 18) {
#pragma unroll 8
    for (int row = 50 - 1; row >= 0; --row) {
      const auto v0 = tf::load<tf::bf16, 4, 8>(T0 + (1200 * (vector / 6) + 24 * row + 4 * (vector % 6)));
      tf::Vec<tf::bf16, 4> w0;
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float T0_0 = tf::convert<float>(v0.v[lane]);
        T1_part[lane] = T1_part[lane] + T0_0;
        const float T2_0 = -T1_part[lane];
        w0.v[lane] = tf::convert<tf::bf16>(T2_0);
      }
      tf::store<8>(T2 + (1200 * (vector / 6) + 24 * row + 4 * (vector % 6)), w0);
    }
  }
}
