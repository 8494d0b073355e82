extern "C" __global__ void __launch_bounds__(128)
kernel(const float* __restrict__ T0, const int* __restrict__ T2, float* __restrict__ T3) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 80) return;
  const int i1 = thread % 16;
  const int i0 = thread / 16;
  const auto v0 = tf::load<int, 4, 16>(T2 + (64 * i0 + 4 * i1));
  tf::Vec<float, 4> w0;
  tf::LaneChecks checks;
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    const int T2_0 = v0.v[lane];
    const tf::i64 T2_1 = tf::convert<tf::i64>(T2_0);
    const tf::i64 T2_2 = checks.in_range(T2_1, 9ll);
    const float T0_0 = T0[(9 * i0 + T2_2)];
    const float T1_0 = -T0_0;
    w0.v[lane] = tf::convert<float>(T1_0);
  }
  checks.end();
  tf::store_hinted<16>(T3 + (64 * i0 + 4 * i1), w0, 0);
}
