extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, const tf::bf16* __restrict__ T1, tf::bf16* __restrict__ T3) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 1031) return;
  const int i0 = thread;
  if ((((8 * i0) % 1031)) < 1024) {
    const auto v0 = tf::load<tf::bf16, 8, 2>(T1 + (((8 * i0) % 1031)));
    const auto v1 = tf::load<tf::bf16, 8, 16>(T0 + (8 * i0));
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T1_0 = tf::convert<float>(v0.v[lane]);
      const float T0_0 = tf::convert<float>(v1.v[lane]);
      const float T2_0 = T0_0 + T1_0;
      w0.v[lane] = tf::convert<tf::bf16>(T2_0);
    }
    tf::store_hinted<16>(T3 + (8 * i0), w0, 0);
    return;
  }
  const auto v0 = tf::load<tf::bf16, 8, 16>(T0 + (8 * i0));
  tf::Vec<tf::bf16, 8> w0;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const float T1_0 = tf::convert<float>(T1[(((8 * i0 + lane) % 1031))]);
    const float T0_0 = tf::convert<float>(v0.v[lane]);
    const float T2_0 = T0_0 + T1_0;
    w0.v[lane] = tf::convert<tf::bf16>(T2_0);
  }
  tf::store_hinted<16>(T3 + (8 * i0), w0, 0);
}
