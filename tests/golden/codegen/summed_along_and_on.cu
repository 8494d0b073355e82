extern "C" __global__ void __launch_bounds__(256, 4)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T1, tf::bf16* __restrict__ T2) {
  const int part = threadIdx.x;
  const int group = blockIdx.x;
  float T2_part = float(0);
  float T1_scan_so_far = float(0);
  int first = 0;
  tf::Vec<tf::bf16, 8> v0[2];
  {
    const auto fetch = [&](const auto is_whole) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const auto vector = first + k * 256 + part;
        if (vector < 6251) {
          v0[k] = tf::load_within<tf::bf16, 8, 16>(T0 + (8 * ((50001 * group) / 8) + 8 * vector), (8 * ((50001 * group) / 8) + 8 * vector), 150003, is_whole);
        }
      }
    };
    if ((group) + 1 < 3) fetch(tf::Yes{});
    else fetch(tf::No{});
  }
  while (first < 6251) {
    float T1_scan[2][8];
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) T1_scan[k][lane] = float(0);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const auto vector = first + k * 256 + part;
      if (vector < 6251) {
        const auto done = [&](const auto is_inner) {
#pragma unroll
          for (int lane = 0; lane < 8; ++lane) {
            const float T0_0 = tf::convert<float>(v0[k].v[lane]);
            if (is_inner || tf::within((-50001 * group + 8 * ((50001 * group) / 8) + 8 * vector + lane), 50001)) T1_scan[k][lane] = T1_scan[k][lane] + T0_0;
            if (is_inner || tf::within((-50001 * group + 8 * ((50001 * group) / 8) + 8 * vector + lane), 50001)) T2_part = T2_part + T0_0;
          }
        };
        const auto warp = vector - int(threadIdx.x % 32);
        if (warp > 0 && warp + 32 < 6250) done(tf::Yes{});
        else done(tf::No{});
      }
    }
    const int next = first + 512;
    if (next < 6251) {
      const int first = next;
      {
        const auto fetch = [&](const auto is_whole) {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const auto vector = first + k * 256 + part;
            if (vector < 6251) {
              v0[k] = tf::load_within<tf::bf16, 8, 16>(T0 + (8 * ((50001 * group) / 8) + 8 * vector), (8 * ((50001 * group) / 8) + 8 * vector), 150003, is_whole);
            }
          }
        };
        if ((group) + 1 < 3) fetch(tf::Yes{});
        else fetch(tf::No{});
      }
    }
    __shared__ float T1_scan_sums[16];
    T1_scan_so_far = tf::scan_row<256, false>(T1_scan, T1_scan_sums, part, float(0), T1_scan_so_far, [](float a, float b) -> float { return a + b; });
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const auto vector = first + k * 256 + part;
      if (vector < 6251) {
        const auto done = [&](const auto is_inner) {
          tf::Vec<tf::bf16, 8> w0;
#pragma unroll
          for (int lane = 0; lane < 8; ++lane) {
            w0.v[lane] = tf::convert<tf::bf16>(T1_scan[k][lane]);
          }
          tf::store_within<16>(T1 + (8 * ((50001 * group) / 8) + 8 * vector), w0, (-50001 * group + 8 * ((50001 * group) / 8) + 8 * vector), 50001, is_inner);
        };
        const auto warp = vector - int(threadIdx.x % 32);
        if (warp > 0 && warp + 32 < 6250) done(tf::Yes{});
        else done(tf::No{});
      }
    }
    first = next;
    __syncthreads();
  }
  T2_part = tf::warp_reduce<32>(T2_part, [](float a, float b) -> float { return a + b; });
  __shared__ float T2_parts[8];
  if (part % 32 == 0) T2_parts[threadIdx.x / 32] = T2_part;
  __syncthreads();
  const float T2_row = tf::combine_warps<8>(T2_parts, [](float a, float b) -> float { return a + b; });
  if (part == 0) {
    tf::Vec<tf::bf16, 1> w0;
    w0.v[0] = tf::convert<tf::bf16>(T2_row);
    tf::store_hinted<2>(T2 + (group), w0, 0);
  }
}
