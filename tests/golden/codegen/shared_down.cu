extern "C" __global__ void __launch_bounds__(256)
kernel(float* T0, const tf::bf16* __restrict__ T1, unsigned char* workspace, unsigned* tickets) {
  const int part = threadIdx.x / 2;
  const int place = threadIdx.x % 2;
  const int group = blockIdx.x % 3;
  const int split = blockIdx.x / 3;
  const int vector = (int)group * 2 + place;
  float T3_part[8];
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_part[lane] = float(0);
  __shared__ float T3_parts[128][16];
  const int first = (int)split * 128;
  if (vector < 5) {
#pragma unroll 4
    for (int row = first + part; row < 2048; row += 16 * 128) {
      const auto v0 = tf::load_streaming<tf::bf16, 8, 16>(T1 + (40 * row + 8 * vector));
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const float T1_0 = tf::convert<float>(v0.v[lane]);
        T3_part[lane] = T3_part[lane] + T1_0;
      }
    }
  }
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_parts[part][lane * 2 + place] = T3_part[lane];
  __syncthreads();
  tf::combine_columns<256>(T3_parts, [](float a, float b) -> float { return a + b; });
  float* const T3_splits = reinterpret_cast<float*>(workspace);
  if (part == 0) {
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_splits[((group * 16 + split) * 8 + lane) * 2 + place] = T3_parts[0][lane * 2 + place];
  }
  __shared__ bool is_last;
  if (!tf::is_last(is_last, tickets + group, 16)) return;
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_part[lane] = float(0);
#pragma unroll 4
  for (int other = part; other < 16; other += 128) {
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_part[lane] = T3_part[lane] + T3_splits[((group * 16 + other) * 8 + lane) * 2 + place];
  }
#pragma unroll
  for (int lane = 0; lane < 8; ++lane) T3_parts[part][lane * 2 + place] = T3_part[lane];
  __syncthreads();
  tf::combine_columns<256>(T3_parts, [](float a, float b) -> float { return a + b; });
  if (vector < 5 && part == 0) {
    float T3_row[8];
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) T3_row[lane] = T3_parts[0][lane * 2 + place];
    const auto v1 = tf::load<float, 8, 16>(T0 + (8 * vector));
    tf::Vec<float, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T0_0 = v1.v[lane];
      const float T4_0 = T0_0 + T3_row[lane];
      w0.v[lane] = tf::convert<float>(T4_0);
    }
    tf::store<16>(T0 + (8 * vector), w0);
  }
}
