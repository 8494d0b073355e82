extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T1) {
  const int thread = blockIdx.x * 128 + threadIdx.x;
  if (thread >= 90000) return;
  const int i0 = thread;
  tf::not_negative(i0);
  const int left = 30 - (((8 * i0) % 30));
  const auto start0 = tf::settled((784 * ((8 * i0) / 900) + 28 * (((8 * i0) / 30) % 30) + ((8 * i0) % 30)));
  const auto start0_next = tf::settled((784 * ((8 * i0 + 7) / 900) + 28 * (((8 * i0 + 7) / 30) % 30) + ((8 * i0 + 7) % 30) + -7));
  const auto start1 = tf::settled(((((8 * i0) / 30) % 30)));
  const auto start1_next = tf::settled(((((8 * i0 + 7) / 30) % 30)));
  const auto start2 = tf::settled((((8 * i0) % 30)));
  const auto start2_next = tf::settled((((8 * i0 + 7) % 30) + -7));
  const auto v0 = tf::load_lanes_if<8, 2>(T0, [&](int lane) { return tf::within(((lane < left ? start1 : start1_next) + -1), 28) & tf::within(((lane < left ? start2 : start2_next) + lane + -1), 28); }, [&](int lane) { return ((lane < left ? start0 : start0_next) + lane + -29); });
  tf::Vec<tf::bf16, 8> w0;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const float T0_0 = tf::convert<float>(v0.v[lane]);
    const float T1_0 = tf::within(((lane < left ? start1 : start1_next) + -1), 28) & tf::within(((lane < left ? start2 : start2_next) + lane + -1), 28) ? T0_0 : 0.0f;
    w0.v[lane] = tf::convert<tf::bf16>(T1_0);
  }
  tf::store_hinted<16>(T1 + (8 * i0), w0, 0);
}
