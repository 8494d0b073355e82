extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, const tf::bf16* __restrict__ T2, tf::bf16* __restrict__ T3, tf::bf16* __restrict__ T5) {
  const int block = blockIdx.x;
  if (block >= 8) return;
  const int across = block % 4;
  const int down = block / 4;
  TF_DYNAMIC_SHARED(unsigned char, shared);
  tf::bf16* const t0 = reinterpret_cast<tf::bf16*>(shared);
  tf::bf16* const t1 = reinterpret_cast<tf::bf16*>(shared + 2048);
  tf::Vec<tf::bf16, 4> v0[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 16 + threadIdx.x / 8;
    const int vector = threadIdx.x % 8;
    const int i0 = down * 32 + row;
    const int i1 = across * 8 + vector;
    if (i1 < 25) {
      v0[k] = tf::load<tf::bf16, 4, 8>(T2 + (100 * i0 + 4 * i1));
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 16 + threadIdx.x / 8;
    const int vector = threadIdx.x % 8;
    const int i1 = across * 32 + row;
    const int i0 = down * 8 + vector;
    if (i1 < 100) {
      tf::copy_async<8>(reinterpret_cast<tf::Vec<tf::bf16, 4>*>(t0 + tf::square_vector<32, 4>(row, vector)), 0, T0 + (64 * i1 + 4 * i0));
    }
  }
  tf::commit_copies();
  tf::await_copies<0>();
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 16 + threadIdx.x / 8;
    const int vector = threadIdx.x % 8;
    const int i0 = down * 32 + row;
    const int i1 = across * 8 + vector;
    if (i1 < 25) {
      tf::Vec<tf::bf16, 4> w0;
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float T2_0 = tf::convert<float>(v0[k].v[lane]);
        const float T0_0 = tf::convert<float>(t0[tf::square_element<32, 4>(vector, lane, row)]);
        const float T3_0 = T0_0 + T2_0;
        const float T5_0 = -T3_0;
        t1[tf::square_element<32, 4>(vector, lane, row)] = tf::convert<tf::bf16>(T5_0);
        w0.v[lane] = tf::convert<tf::bf16>(T3_0);
      }
      tf::store_hinted<8>(T3 + (100 * i0 + 4 * i1), w0, 0);
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int row = k * 16 + threadIdx.x / 8;
    const int vector = threadIdx.x % 8;
    const int i1 = across * 32 + row;
    const int i0 = down * 8 + vector;
    if (i1 < 100) {
      tf::store<8>(T5 + (64 * i1 + 4 * i0), tf::load<tf::bf16, 4, 8>(t1 + tf::square_vector<32, 4>(row, vector)));
    }
  }
}
