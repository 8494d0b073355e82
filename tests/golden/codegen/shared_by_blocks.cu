extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256)
kernel(const tf::bf16* __restrict__ T0, const tf::bf16* __restrict__ T1, tf::bf16* __restrict__ T10, float* __restrict__ T5) {
  const int rank = blockIdx.x % 4;
  const int part = rank * 256 + threadIdx.x;
  const int group = blockIdx.x / 4;
  __shared__ tf::Mailbox mail[1];
  if (threadIdx.x == 0) {
    tf::open_mail(mail[0]);
  }
  __syncwarp();  // for racecheck, which takes what a warp does as one for another thread's
  if (threadIdx.x == 0) {
    tf::expect_mail(mail[0], 16);
  }
  tf::cluster_arrive();
  TF_DYNAMIC_SHARED(unsigned char, shared);
  tf::Vec<tf::bf16, 8>* const v1_slots = reinterpret_cast<tf::Vec<tf::bf16, 8>*>(shared);
  const int slot = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int vector = k * 1024 + part;
    tf::copy_async<16>(v1_slots, (slot * 8 + k) * 256 + threadIdx.x, T0 + (65536 * group + 8 * vector));
  }
  tf::commit_copies();
  tf::Vec<tf::bf16, 8> v0[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int vector = k * 1024 + part;
    v0[k] = tf::load<tf::bf16, 8, 16>(T1 + (65536 * group + 8 * vector));
  }
  tf::await_copies<0>();
  float T5_part = float(0);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int vector = k * 1024 + part;
    const auto v1 = v1_slots[(slot * 8 + k) * 256 + threadIdx.x];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T1_0 = tf::convert<float>(v0[k].v[lane]);
      const float T0_0 = tf::convert<float>(v1.v[lane]);
      const float T4_0 = T0_0 * T1_0;
      T5_part = T5_part + T4_0;
    }
  }
  T5_part = tf::warp_reduce<32>(T5_part, [](float a, float b) -> float { return a + b; });
  __shared__ float T5_parts[8];
  if (part % 32 == 0) T5_parts[threadIdx.x / 32] = T5_part;
  __syncthreads();
  __shared__ float T5_part_ranks[4];
  tf::cluster_wait();
  if (threadIdx.x < 4) {
    tf::send_mail(T5_part_ranks + rank, static_cast<float>(tf::combine_warps<8>(T5_parts, [](float a, float b) -> float { return a + b; })), mail[0], threadIdx.x);
  }
  tf::await_mail(mail[0]);
  const float T5_row = tf::combine_warps<4>(T5_part_ranks, [](float a, float b) -> float { return a + b; });
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int vector = k * 1024 + part;
    const auto v1 = v1_slots[(slot * 8 + k) * 256 + threadIdx.x];
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T1_1 = tf::convert<float>(v0[k].v[lane]);
      const float T0_1 = tf::convert<float>(v1.v[lane]);
      const float T8_0 = T1_1 - T5_row;
      const float T9_0 = T0_1 * T8_0;
      w0.v[lane] = tf::convert<tf::bf16>(T9_0);
    }
    tf::store_hinted<16>(T10 + (65536 * group + 8 * vector), w0, 0);
  }
  if (part == 0) {
    tf::Vec<float, 1> w0;
    w0.v[0] = tf::convert<float>(T5_row);
    tf::store_hinted<4>(T5 + (group), w0, 0);
  }
}
