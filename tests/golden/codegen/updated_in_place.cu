extern "C" __global__ void __launch_bounds__(128)
kernel(float* T0, const float* __restrict__ T1) {
  const int round = blockIdx.x / 2;
  const int turn = blockIdx.x % 2;
  if (turn < 1) {
    const int thread = (round * 1 + turn) * 128 + threadIdx.x;
    if (thread >= 15) return;
    const int i0 = thread;
    const auto v0 = tf::load<float, 4, 16>(T0 + (4 * i0));
    tf::Vec<float, 4> w0;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T1_0 = T1[(((4 * i0 + lane) % 9))];
      const float T0_0 = v0.v[lane];
      const float T2_0 = T0_0 + T1_0;
      w0.v[lane] = tf::convert<float>(T2_0);
    }
    tf::store<16>(T0 + (4 * i0), w0);
    return;
  }
  {
    const int thread = (round * 1 + tf::settled(int(turn - 1))) * 128 + threadIdx.x;
    if (thread >= 3) return;
    const int i0 = thread;
    const auto v0 = tf::load<float, 1, 4>(T1 + (i0 + 6));
    const auto v1 = tf::load<float, 1, 4>(T0 + (i0 + 60));
    tf::Vec<float, 1> w0;
    const float T1_0 = v0.v[0];
    const float T0_0 = v1.v[0];
    const float T2_0 = T0_0 + T1_0;
    w0.v[0] = tf::convert<float>(T2_0);
    tf::store<4>(T0 + (i0 + 60), w0);
  }
}
