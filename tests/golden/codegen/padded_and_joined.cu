extern "C" __global__ void __launch_bounds__(128)
kernel(const float* __restrict__ T0, float* __restrict__ T3) {
  const int round = blockIdx.x / 4;
  const int turn = blockIdx.x % 4;
  if (turn < 1) {
    const int thread = (round * 1 + turn) * 128 + threadIdx.x;
    if (thread >= 15) return;
    const int i1 = thread % 3;
    const int i0 = thread / 3;
    tf::Vec<float, 4> w0;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T0_0 = T0[(12 * i0 + -4 * i1 + -1 * lane + 11)];
      w0.v[lane] = tf::convert<float>(T0_0);
    }
    tf::store<16>(T3 + (28 * i0 + 4 * i1), w0);
    return;
  }
  if (turn < 2) {
    const int thread = (round * 1 + tf::settled(int(turn - 1))) * 128 + threadIdx.x;
    if (thread >= 15) return;
    const int i1 = thread % 3;
    const int i0 = thread / 3;
    tf::Vec<float, 1> w0;
    w0.v[0] = tf::convert<float>(2.0f);
    tf::store<4>(T3 + (28 * i0 + i1 + 12), w0);
    return;
  }
  if (turn < 3) {
    const int thread = (round * 1 + tf::settled(int(turn - 2))) * 128 + threadIdx.x;
    if (thread >= 60) return;
    const int i1 = thread % 12;
    const int i0 = thread / 12;
    const auto v0 = tf::load<float, 1, 4>(T0 + (12 * i0 + i1));
    tf::Vec<float, 1> w0;
    const float T0_0 = v0.v[0];
    w0.v[0] = tf::convert<float>(T0_0);
    tf::store<4>(T3 + (28 * i0 + i1 + 15), w0);
    return;
  }
  {
    const int thread = (round * 1 + tf::settled(int(turn - 3))) * 128 + threadIdx.x;
    if (thread >= 5) return;
    const int i0 = thread;
    tf::Vec<float, 1> w0;
    w0.v[0] = tf::convert<float>(2.0f);
    tf::store<4>(T3 + (28 * i0 + 27), w0);
  }
}
