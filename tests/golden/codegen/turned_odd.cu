extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, bool* __restrict__ T3, tf::bf16* __restrict__ T4) {
  const int round = blockIdx.x / 193;
  const int turn = blockIdx.x % 193;
  if (turn < 192) {
    const int block = (round * 192 + turn);
    if (block >= 192) return;
    const int down = block % 1;
    const int across = block / 1;
    TF_DYNAMIC_SHARED(unsigned char, shared);
    bool* const t0 = reinterpret_cast<bool*>(shared);
    tf::bf16* const t1 = reinterpret_cast<tf::bf16*>(shared + 4608);
    tf::Vec<tf::bf16, 1> v0[36];
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int vector = part * 128 + threadIdx.x;
      const int i0 = across * 512 + vector;
      if (i0 < 98096) {
#pragma unroll
        for (int row = 0; row < 9; ++row) {
          const int k = part * 9 + row;
          const int i1 = down * 9 + row;
          v0[k] = tf::load<tf::bf16, 1, 2>(T0 + (441 * (i0 / 49) + 49 * i1 + (i0 % 49)));
        }
      }
    }
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int vector = part * 128 + threadIdx.x;
      const int i0 = across * 512 + vector;
      if (i0 < 98096) {
#pragma unroll
        for (int row = 0; row < 9; ++row) {
          const int k = part * 9 + row;
          const int i1 = down * 9 + row;
          const float T0_0 = tf::convert<float>(v0[k].v[0]);
          const float T2_0 = tf::abs(T0_0);
          const bool T3_0 = T0_0 < T2_0;
          const float T4_0 = -T0_0;
          t0[tf::slab_element<9, 8, 9>(vector / 8, 1 * (vector % 8) + 0, row)] = tf::convert<bool>(T3_0);
          t1[tf::slab_element<9, 8, 9>(vector / 8, 1 * (vector % 8) + 0, row)] = tf::convert<tf::bf16>(T4_0);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 5; ++k) {
      const unsigned place = k * 128 + threadIdx.x;
      const int row = place / 9;
      const int vector = place % 9;
      const int i0 = across * 64 + row;
      const int i1 = down * 9 + vector;
      if (row < 64 && i0 < 12262) {
        tf::store<8>(T3 + (72 * i0 + 8 * i1), tf::load<bool, 8, 8>(t0 + tf::slab_vector<9, 8>(row, vector)));
        tf::store<16>(T4 + (72 * i0 + 8 * i1), tf::load<tf::bf16, 8, 16>(t1 + tf::slab_vector<9, 8>(row, vector)));
      }
    }
    return;
  }
  {
    const int thread = (round * 1 + tf::settled(int(turn - 192))) * 128 + threadIdx.x;
    if (thread >= 18) return;
    const int i1 = thread % 9;
    const int i0 = thread / 9;
    const auto v0 = tf::load<tf::bf16, 1, 2>(T0 + (49 * i1 + i0 + 882488));
    tf::Vec<bool, 1> w0;
    tf::Vec<tf::bf16, 1> w1;
    const float T0_0 = tf::convert<float>(v0.v[0]);
    const float T2_0 = tf::abs(T0_0);
    const bool T3_0 = T0_0 < T2_0;
    const float T4_0 = -T0_0;
    w0.v[0] = tf::convert<bool>(T3_0);
    w1.v[0] = tf::convert<tf::bf16>(T4_0);
    tf::store<1>(T3 + (9 * i0 + i1 + 882864), w0);
    tf::store<2>(T4 + (9 * i0 + i1 + 882864), w1);
  }
}
