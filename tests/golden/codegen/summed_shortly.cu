extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T1) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 32) return;
  const int i1 = thread % 8;
  const int i0 = thread / 8;
  const auto v0 = tf::load<tf::bf16, 8, 16>(T0 + (192 * i0 + 8 * i1));
  const auto v1 = tf::load<tf::bf16, 8, 16>(T0 + (192 * i0 + 8 * i1 + 64));
  const auto v2 = tf::load<tf::bf16, 8, 16>(T0 + (192 * i0 + 8 * i1 + 128));
  tf::Vec<tf::bf16, 8> w0;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const float T0_0 = tf::convert<float>(v0.v[lane]);
    const float T0_1 = tf::convert<float>(v1.v[lane]);
    const float T0_2 = tf::convert<float>(v2.v[lane]);
    const float T1_0 = ((T0_0 + T0_1) + T0_2);
    w0.v[lane] = tf::convert<tf::bf16>(T1_0);
  }
  tf::store_hinted<16>(T1 + (64 * i0 + 8 * i1), w0, 0);
}
