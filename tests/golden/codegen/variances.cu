extern "C" __global__ void __launch_bounds__(256)
kernel(const tf::bf16* __restrict__ T0, float* __restrict__ T2, float* __restrict__ T3, unsigned char* workspace, unsigned* tickets) {
  const int part = threadIdx.x;
  const int group = blockIdx.x % 24;
  const int split = blockIdx.x / 24;
  const int first = split * 1930;
  tf::Moments<float> T2_part = tf::Moments<float>{};
  float T3_part = float(0);
  tf::Vec<tf::bf16, 8> v0[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const auto vector = first + k * 256 + part;
    if (k * 256 + part < 1930 && vector < 25088) {
      v0[k] = tf::load_streaming<tf::bf16, 8, 16>(T0 + (75264 * (vector / 392) + 3136 * group + 8 * (vector % 392)));
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const auto vector = first + k * 256 + part;
    if (k * 256 + part < 1930 && vector < 25088) {
      float T2_terms[8];
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const float T0_0 = tf::convert<float>(v0[k].v[lane]);
        T2_terms[lane] = T0_0;
        T3_part = T3_part + T0_0;
      }
      T2_part = tf::observed(T2_part, T2_terms);
    }
  }
  tf::Moments<float>* const T2_part_splits = reinterpret_cast<tf::Moments<float>*>(workspace);
  float* const T3_part_splits = reinterpret_cast<float*>(workspace + 4992);
  {
    T2_part = tf::met<32>(T2_part);
    T3_part = tf::warp_reduce<32>(T3_part, [](float a, float b) -> float { return a + b; });
    __shared__ tf::Moments<float> T2_parts[8];
    if (part % 32 == 0) T2_parts[threadIdx.x / 32] = T2_part;
    __shared__ float T3_parts[8];
    if (part % 32 == 0) T3_parts[threadIdx.x / 32] = T3_part;
    __syncthreads();
    if (part < 32) {
      const tf::Moments<float> T2_row = tf::met<8>(T2_parts[threadIdx.x % 8]);
      const float T3_row = tf::combine_warps<8>(T3_parts, [](float a, float b) -> float { return a + b; });
      if (part == 0) {
        T2_part_splits[group * 13 + split] = T2_row;
        T3_part_splits[group * 13 + split] = T3_row;
      }
    }
  }
  __shared__ bool is_last;
  if (!tf::is_last(is_last, tickets + group, 13)) return;
  T2_part = tf::Moments<float>{};
  T3_part = float(0);
#pragma unroll 4
  for (int other = part; other < 13; other += 256) {
    T2_part = tf::merged(T2_part, T2_part_splits[group * 13 + other]);
    T3_part = T3_part + T3_part_splits[group * 13 + other];
  }
  T2_part = tf::met<32>(T2_part);
  T3_part = tf::warp_reduce<32>(T3_part, [](float a, float b) -> float { return a + b; });
  __shared__ tf::Moments<float> T2_parts[8];
  if (part % 32 == 0) T2_parts[threadIdx.x / 32] = T2_part;
  __shared__ float T3_parts[8];
  if (part % 32 == 0) T3_parts[threadIdx.x / 32] = T3_part;
  __syncthreads();
  const float T2_row = tf::about_mean(tf::met<8>(T2_parts[threadIdx.x % 8]));
  const float T3_row = tf::combine_warps<8>(T3_parts, [](float a, float b) -> float { return a + b; });
  if (part == 0) {
    tf::Vec<float, 1> w0;
    tf::Vec<float, 1> w1;
    w0.v[0] = tf::convert<float>(T2_row);
    w1.v[0] = tf::convert<float>(T3_row);
    tf::store_hinted<4>(T2 + (group), w0, 0);
    tf::store_hinted<4>(T3 + (group), w1, 0);
  }
}
