extern "C" __global__ void __launch_bounds__(32, 12)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T2) {
  const int part = 0;
  const int place = threadIdx.x;
  const int vector = (int)blockIdx.x * 32 + place;
  float T1_part[4];
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) T1_part[lane] = float(0);
  if (vector < 18) {
    int start = part;
    for (; start + 49 < 50; start += 50) {
      tf::Vec<tf::bf16, 4> v0_rows[50];
#pragma unroll
      for (int k = 0; k < 50; ++k) {
        const int row = 50 - 1 - (start + k * 1);
        v0_rows[k] = tf::load<tf::bf16, 4, 8>(T0 + (1200 * (vector / 6) + 24 * row + 4 * (vector % 6)));
      }
#pragma unroll
      for (int k = 0; k < 50; ++k) {
        const int row = 50 - 1 - (start + k * 1);
        const auto v0 = v0_rows[k];
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
}
