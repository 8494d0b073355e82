extern "C" __global__ void __launch_bounds__(128, 1)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T3, tf::bf16* __restrict__ T5) {
  const int part = threadIdx.x;
  const int group = blockIdx.x;
  float T5_part[1][8];
#pragma unroll
  for (int k = 0; k < 1; ++k)
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T5_part[k][lane] = float(0);
  TF_DYNAMIC_SHARED(unsigned char, shared);
  tf::Vec<tf::bf16, 8>* const v0_slots = reinterpret_cast<tf::Vec<tf::bf16, 8>*>(shared);
  for (int slot = 0; slot < 8; ++slot) {
#pragma unroll
    for (int k = 0; k < 1; ++k) {
      const int vector = k * 128 + part;
      if ((k + 1) * 128 <= 65 || vector < 65) {
        tf::copy_async<16>(v0_slots, (slot * 1 + k) * 128 + threadIdx.x, T0 + (20800 * group + 520 * slot + 8 * vector));
      }
    }
    tf::commit_copies();
  }
  for (int turn = 0; turn < 40; ++turn) {
    tf::await_copies<7>();
    const int slot = turn % 8;
    tf::Vec<tf::bf16, 8> v0[1];
#pragma unroll
    for (int k = 0; k < 1; ++k) {
      const int vector = k * 128 + part;
      if ((k + 1) * 128 <= 65 || vector < 65) {
        v0[k] = v0_slots[(slot * 1 + k) * 128 + threadIdx.x];
      }
    }
    float T1_part = float(0);
#pragma unroll
    for (int k = 0; k < 1; ++k) {
      const int vector = k * 128 + part;
      if ((k + 1) * 128 <= 65 || vector < 65) {
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float T0_0 = tf::convert<float>(v0[k].v[lane]);
          T1_part = T1_part + T0_0;
        }
      }
    }
    T1_part = tf::warp_reduce<32>(T1_part, [](float a, float b) -> float { return a + b; });
    __shared__ float T1_parts[2][4];
    if (part % 32 == 0) T1_parts[turn % 2][threadIdx.x / 32] = T1_part;
    __syncthreads();
    const float T1_row = tf::combine_warps<4>(T1_parts[turn % 2], [](float a, float b) -> float { return a + b; });
#pragma unroll
    for (int k = 0; k < 1; ++k) {
      const int vector = k * 128 + part;
      if ((k + 1) * 128 <= 65 || vector < 65) {
        tf::Vec<tf::bf16, 8> w0;
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float T0_1 = tf::convert<float>(v0[k].v[lane]);
          const float T3_0 = T0_1 - T1_row;
          w0.v[lane] = tf::convert<tf::bf16>(T3_0);
          T5_part[k][lane] = T5_part[k][lane] + T0_1;
        }
        tf::store_hinted<16>(T3 + (20800 * group + 520 * turn + 8 * vector), w0, 0);
      }
    }
    if (turn + 8 < 40) {
#pragma unroll
      for (int k = 0; k < 1; ++k) {
        const int vector = k * 128 + part;
        if ((k + 1) * 128 <= 65 || vector < 65) {
          tf::copy_async<16>(v0_slots, (slot * 1 + k) * 128 + threadIdx.x, T0 + (20800 * group + 520 * (turn + 8) + 8 * vector));
        }
      }
    }
    tf::commit_copies();
  }
#pragma unroll
  for (int k = 0; k < 1; ++k) {
    const int vector = k * 128 + part;
    if ((k + 1) * 128 <= 65 || vector < 65) {
      tf::Vec<tf::bf16, 8> w0;
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        w0.v[lane] = tf::convert<tf::bf16>(T5_part[k][lane]);
      }
      tf::store_hinted<16>(T5 + (520 * group + 8 * vector), w0, 0);
    }
  }
}
