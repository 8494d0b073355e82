extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, bool* __restrict__ T3, tf::bf16* __restrict__ T4) {
  const int block = blockIdx.x;
  if (block >= 140) return;
  const int down = block % 1;
  const int across = block / 1;
  TF_DYNAMIC_SHARED(unsigned char, shared);
  tf::bf16* const t0 = reinterpret_cast<tf::bf16*>(shared);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned place = k * 128 + threadIdx.x;
    const int row = place / 49;
    const int vector = place % 49;
    const int i0 = across * 10 + row;
    const int i1 = down * 49 + vector;
    if (row < 10) {
      tf::copy_async<16>(reinterpret_cast<tf::Vec<tf::bf16, 8>*>(t0 + tf::slab_vector<49, 8>(row, vector)), 0, T0 + (392 * i0 + 8 * i1));
    }
  }
  tf::commit_copies();
  tf::await_copies<0>();
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned place = k * 128 + threadIdx.x;
    const int row = place / 2 % 49;
    const int vector = place / 98 * 2 + place % 2;
    const int i1 = down * 49 + row;
    const int i0 = across * 10 + vector;
    if (vector < 10) {
      tf::Vec<bool, 8> w0;
      tf::Vec<tf::bf16, 8> w1;
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const float T0_0 = tf::convert<float>(t0[tf::slab_element<49, 8, 49>(vector, lane, row)]);
        const float T2_0 = tf::abs(T0_0);
        const bool T3_0 = T0_0 < T2_0;
        const float T4_0 = -T0_0;
        w0.v[lane] = tf::convert<bool>(T3_0);
        w1.v[lane] = tf::convert<tf::bf16>(T4_0);
      }
      tf::store_hinted<8>(T3 + (784 * (i0 / 2) + 16 * i1 + 8 * (i0 % 2)), w0, 0);
      tf::store_hinted<16>(T4 + (784 * (i0 / 2) + 16 * i1 + 8 * (i0 % 2)), w1, 0);
    }
  }
}
