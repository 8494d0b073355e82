extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, const float* __restrict__ T1, tf::bf16* __restrict__ T3) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 30) return;
  const int i1 = thread % 5;
  const int i0 = thread / 5;
  const auto v0 = tf::load<float, 8, 16>(T1 + (8 * i1));
  const auto v1 = tf::load<tf::bf16, 8, 16>(T0 + (40 * i0 + 8 * i1));
  tf::Vec<tf::bf16, 8> w0;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const float T1_0 = v0.v[lane];
    const float T0_0 = tf::convert<float>(v1.v[lane]);
    const float T2_0 = T0_0 * T1_0;
    w0.v[lane] = tf::convert<tf::bf16>(T2_0);
  }
  tf::store_hinted<16>(T3 + (40 * i0 + 8 * i1), w0, 0);
}
