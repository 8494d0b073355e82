extern "C" __global__ void __launch_bounds__(512, 1)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T1, unsigned char* workspace, unsigned* tickets) {
  const int part = threadIdx.x / 32;
  const int place = threadIdx.x % 32;
  __shared__ unsigned drawn;
  const unsigned turn = tf::turn_of_block(drawn, tickets, 12642);
  const int group = turn % 129, split = turn / 129;
  const int own = (int)group * 32 + place;
  const bool is_there = own < 4097;
  const int vector = is_there ? own : 4097 - 1;
  const int start = ((int)split * 16 + part) * 64;
  const bool is_whole = start + 64 <= 100001;
  float T1_part[1];
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_part[lane] = float(0);
  __shared__ float T1_parts[17][32];
  __shared__ float T1_asked[17][32];
  tf::Vec<tf::bf16, 1> v0_rows[64];
  if (is_whole) {
#pragma unroll
    for (int k = 0; k < 64; ++k) {
      const int row = 100001 - 1 - (start + k);
      v0_rows[k] = tf::load<tf::bf16, 1, 2>(T0 + (4097 * row + vector));
    }
  } else {
#pragma unroll
    for (int k = 0; k < 64; ++k) {
      const int row = 100001 - 1 - (start + (start + k < 100001 ? k : 100001 - start - 1));
      v0_rows[k] = tf::load<tf::bf16, 1, 2>(T0 + (4097 * row + vector));
    }
  }
#pragma unroll
  for (int k = 0; k < 64; ++k) {
    const int row = 100001 - 1 - (start + (start + k < 100001 ? k : 100001 - start - 1));
    const auto v0 = v0_rows[k];
    const float T0_0 = tf::convert<float>(v0.v[0]);
    T1_part[0] = T1_part[0] + T0_0;
  }
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_parts[part][lane * 32 + place] = T1_part[lane];
  __syncthreads();
  tf::scan_parts<512>(T1_parts, float(0), [](float a, float b) -> float { return a + b; });
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_part[lane] = T1_parts[part][lane * 32 + place];
  float* const T1_splits = reinterpret_cast<float*>(workspace);
  unsigned* const marks = tickets + 2 + group * 98;
  const int first = split < 96 ? 1 : split - split % 96;
  const bool is_passed = split % 96 == 95;
  if (split + 1 < 98 && !is_passed) {
    if (part == 0) {
#pragma unroll
      for (int lane = 0; lane < 1; ++lane) T1_splits[((group * 98 + split + 1) * 1 + lane) * 32 + place] = T1_parts[16][lane * 32 + place];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      tf::mark(marks + split + 1);
    }
  }
  if (first + 1 + int(threadIdx.x) <= split) {
    tf::await_mark(marks + first + 1 + threadIdx.x);
  }
  __syncthreads();
  float T1_ahead[1];
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_ahead[lane] = float(0);
#pragma unroll 4
  for (int other = first + 1 + part; other <= split; other += 16) {
#pragma unroll
    for (int lane = 0; lane < 1; ++lane) T1_ahead[lane] = T1_ahead[lane] + T1_splits[((group * 98 + other) * 1 + lane) * 32 + place];
  }
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_asked[part][lane * 32 + place] = T1_ahead[lane];
  __syncthreads();
  tf::scan_parts<512>(T1_asked, float(0), [](float a, float b) -> float { return a + b; });
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_ahead[lane] = T1_asked[16][lane * 32 + place];
  if (threadIdx.x == 0 && first <= split) {
    tf::await_mark(marks + first);
  }
  __syncthreads();
  if (first <= split) {
#pragma unroll
    for (int lane = 0; lane < 1; ++lane) T1_ahead[lane] = T1_splits[((group * 98 + first) * 1 + lane) * 32 + place] + T1_ahead[lane];
  }
  if (split + 1 < 98 && is_passed) {
    if (part == 0) {
#pragma unroll
      for (int lane = 0; lane < 1; ++lane) T1_splits[((group * 98 + split + 1) * 1 + lane) * 32 + place] = T1_ahead[lane] + T1_parts[16][lane * 32 + place];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      tf::mark(marks + split + 1);
    }
  }
#pragma unroll
  for (int lane = 0; lane < 1; ++lane) T1_part[lane] = T1_ahead[lane] + T1_part[lane];
  if (is_there) {
    if (is_whole) {
#pragma unroll
      for (int k = 0; k < 64; ++k) {
        const int row = 100001 - 1 - (start + k);
        const auto v0 = v0_rows[k];
        tf::Vec<tf::bf16, 1> w0;
        const float T0_0 = tf::convert<float>(v0.v[0]);
        T1_part[0] = T1_part[0] + T0_0;
        w0.v[0] = tf::convert<tf::bf16>(T1_part[0]);
        tf::store<2>(T1 + (4097 * row + vector), w0);
      }
    } else {
#pragma unroll
      for (int k = 0; k < 64; ++k) {
        const int row = 100001 - 1 - (start + k);
        if (start + k < 100001) {
          const auto v0 = v0_rows[k];
          tf::Vec<tf::bf16, 1> w0;
          const float T0_0 = tf::convert<float>(v0.v[0]);
          T1_part[0] = T1_part[0] + T0_0;
          w0.v[0] = tf::convert<tf::bf16>(T1_part[0]);
          tf::store<2>(T1 + (4097 * row + vector), w0);
        }
      }
    }
  }
  if (threadIdx.x < 32 && tf::is_last_warp(tickets + 1, 12642)) {
    for (int k = threadIdx.x; k < 12642; k += 32) {
      tickets[2 + k] = 0;
    }
  }
}
