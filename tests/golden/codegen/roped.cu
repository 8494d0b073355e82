extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, const tf::bf16* __restrict__ T6, const tf::bf16* __restrict__ T12, tf::bf16* __restrict__ T16, tf::bf16* __restrict__ T29, tf::bf16* __restrict__ T32) {
  if (blockIdx.x < 32) {
    const int thread = blockIdx.x * 128 + threadIdx.x;
    if (thread >= 4096) return;
    const int i4 = thread % 4;
    const int i3 = thread / 4 % 64;
    const int i2 = thread / 4 / 64 % 4;
    const int i1 = thread / 4 / 64 / 4 % 2;
    const int i0 = thread / 4 / 64 / 4 / 2;
    const auto v0 = tf::load<tf::bf16, 8, 16>(T0 + (24576 * i0 + 384 * i3 + 192 * i1 + 32 * i2 + 8 * i4));
    const auto v1 = tf::load_if<tf::bf16, 8, 16>((i4) < 1, T12 + (8 * i3 + 8 * i4));
    const auto v2 = tf::load_if<tf::bf16, 8, 16>((i4) < 1, T6 + (8 * i3 + 8 * i4));
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T12_0 = tf::convert<float>(v1.v[lane]);
      const float T12_1 = tf::convert<float>(v1.v[lane + 4]);
      const float T6_0 = tf::convert<float>(v2.v[lane]);
      const float T6_1 = tf::convert<float>(v2.v[lane + 4]);
      const float T0_0 = tf::convert<float>(v0.v[lane]);
      const float T0_1 = tf::convert<float>(v0.v[lane + 4]);
      const float T7_0 = T0_1 * T6_1;
      const float T7_1 = T0_0 * T6_0;
      const float T9_0 = -T0_1;
      const float T13_0 = T0_0 * T12_1;
      const float T13_1 = T9_0 * T12_0;
      const float T14_0 = T7_0 + T13_0;
      const float T14_1 = T7_1 + T13_1;
      const float T16_0 = (i4) < 1 ? T14_0 : T0_1;
      const float T16_1 = (i4) < 1 ? T14_1 : T0_0;
      w0.v[lane] = tf::convert<tf::bf16>(T16_1);
      w0.v[lane + 4] = tf::convert<tf::bf16>(T16_0);
    }
    tf::store_hinted<16>(T16 + (16384 * i0 + 8192 * i1 + 2048 * i2 + 32 * i3 + 8 * i4), w0, 0);
    return;
  }
  if (blockIdx.x < 64) {
    const int thread = tf::settled(int(blockIdx.x - 32)) * 128 + threadIdx.x;
    if (thread >= 4096) return;
    const int i4 = thread % 4;
    const int i3 = thread / 4 % 64;
    const int i2 = thread / 4 / 64 % 4;
    const int i1 = thread / 4 / 64 / 4 % 2;
    const int i0 = thread / 4 / 64 / 4 / 2;
    const auto v0 = tf::load<tf::bf16, 8, 16>(T0 + (24576 * i0 + 384 * i3 + 192 * i1 + 8 * i4 + 128));
    const auto v1 = tf::load_if<tf::bf16, 8, 16>((i4) < 1, T12 + (8 * i3 + 8 * i4));
    const auto v2 = tf::load_if<tf::bf16, 8, 16>((i4) < 1, T6 + (8 * i3 + 8 * i4));
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T12_0 = tf::convert<float>(v1.v[lane]);
      const float T12_1 = tf::convert<float>(v1.v[lane + 4]);
      const float T6_0 = tf::convert<float>(v2.v[lane]);
      const float T6_1 = tf::convert<float>(v2.v[lane + 4]);
      const float T0_0 = tf::convert<float>(v0.v[lane]);
      const float T0_1 = tf::convert<float>(v0.v[lane + 4]);
      const float T21_0 = T0_1 * T6_1;
      const float T21_1 = T0_0 * T6_0;
      const float T23_0 = -T0_1;
      const float T26_0 = T0_0 * T12_1;
      const float T26_1 = T23_0 * T12_0;
      const float T27_0 = T21_0 + T26_0;
      const float T27_1 = T21_1 + T26_1;
      const float T29_0 = (i4) < 1 ? T27_0 : T0_1;
      const float T29_1 = (i4) < 1 ? T27_1 : T0_0;
      w0.v[lane] = tf::convert<tf::bf16>(T29_1);
      w0.v[lane + 4] = tf::convert<tf::bf16>(T29_0);
    }
    tf::store_hinted<16>(T29 + (16384 * i0 + 8192 * i1 + 2048 * i2 + 32 * i3 + 8 * i4), w0, 0);
    return;
  }
  {
    const int thread = tf::settled(int(blockIdx.x - 64)) * 128 + threadIdx.x;
    if (thread >= 4096) return;
    const int i4 = thread % 4;
    const int i3 = thread / 4 % 64;
    const int i2 = thread / 4 / 64 % 4;
    const int i1 = thread / 4 / 64 / 4 % 2;
    const int i0 = thread / 4 / 64 / 4 / 2;
    const auto v0 = tf::load<tf::bf16, 8, 16>(T0 + (24576 * i0 + 384 * i3 + 192 * i1 + 8 * i4 + 160));
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T0_0 = tf::convert<float>(v0.v[lane]);
      w0.v[lane] = tf::convert<tf::bf16>(T0_0);
    }
    tf::store_hinted<16>(T32 + (16384 * i0 + 8192 * i1 + 2048 * i2 + 32 * i3 + 8 * i4), w0, 0);
  }
}
