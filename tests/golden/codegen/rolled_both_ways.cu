extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T6) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 84000) return;
  const int i0 = thread;
  tf::not_negative(i0);
  const int left = 30 - (((8 * i0) % 30));
  const auto start0 = tf::settled(((((8 * i0) / 30) % 28)));
  const auto start0_next = tf::settled(((((8 * i0 + 7) / 30) % 28)));
  const auto start1 = tf::settled((((8 * i0) % 30)));
  const auto start1_next = tf::settled((((8 * i0 + 7) % 30) + -7));
  const auto v0 = tf::load_lanes<8, 2>(T0, [&](int lane) { return ((lane < left ? start1 : start1_next) + lane + -25) >= 0 ? (((lane < left ? start0 : start0_next) + -25) >= 0 ? (8 * i0 + lane + -775) : (8 * i0 + lane + 65)) : ((lane < left ? start0 : start0_next) + -25) >= 0 ? (8 * i0 + lane + -745) : (8 * i0 + lane + 95); });
  tf::Vec<tf::bf16, 8> w0;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const float T0_0 = tf::convert<float>(v0.v[lane]);
    w0.v[lane] = tf::convert<tf::bf16>(T0_0);
  }
  tf::store_hinted<16>(T6 + (8 * i0), w0, 0);
}
