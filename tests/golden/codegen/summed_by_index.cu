extern "C" __global__ void __launch_bounds__(1024)
kernel(const int* __restrict__ T0, tf::i64* __restrict__ T1, tf::i64* __restrict__ T2, tf::i64* __restrict__ T3) {
  const auto index = [&](const int place) {
    const int T0_0 = T0[(place)];
    const tf::i64 T0_1 = tf::convert<tf::i64>(T0_0);
    return T0_1;
  };
  tf::put_in_order<256, 1024>(index, 60, 50, T1, T2, T3);
}
extern "C" __global__ void __launch_bounds__(256, 5)
kernel(const float* __restrict__ T0, const tf::bf16* __restrict__ T1, const tf::i64* __restrict__ T4, const tf::i64* __restrict__ T5, float* __restrict__ T7) {
  const int part = threadIdx.x / 32;
  const int vector = blockIdx.x % 2 * 32 + threadIdx.x % 32;
  const int first = blockIdx.x / 2 * 8;
  const int last = first + 8 < 50 ? first + 8 : 50;
  float T6_part[8]; float T6_row[8];
  const auto stretch = [&](const int row, int& begin, int& end) {
    const tf::i64 T5_0 = (row + -1) >= 0 ? T5[(row + -1)] : tf::i64(0);
    const tf::i64 T5_1 = T5[(row)];
    begin = (int)T5_0;
    end = (int)T5_1;
    if ((row) == 3) end = begin;
  };
  const auto clear = [&]() {
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      T6_part[lane] = float(0);
    }
  };
  const auto add = [&](const int row, const int begin, const int end, const int step) {
    for (int start = begin; start < end; start += 4 * step) {
      tf::Vec<tf::bf16, 8> v0[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int term = start + k * step < end ? start + k * step : start;
        const tf::i64 T4_0 = T4[(term)];
        v0[k] = tf::load<tf::bf16, 8, 16>(T1 + (512 * T4_0 + 8 * vector));
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const bool has_term = start + k * step < end;
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float T6_kept = T6_part[lane];
          const float T1_0 = tf::convert<float>(v0[k].v[lane]);
          const float T2_0 = T1_0 * 22.5f;
          T6_part[lane] = T6_part[lane] + T2_0;
          if (!has_term) T6_part[lane] = T6_kept;
        }
      }
    }
  };
  const auto finish = [&](const int row) {
    const auto v0 = tf::load<float, 8, 16>(T0 + (512 * row + 8 * vector));
    tf::Vec<float, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T0_0 = v0.v[lane];
      const float T7_0 = T0_0 + T6_row[lane];
      w0.v[lane] = tf::convert<float>(T7_0);
    }
    tf::store_hinted<16>(T7 + (512 * row + 8 * vector), w0, 0);
  };
  bool has_many = false;
#pragma unroll
  for (int k = threadIdx.x; k < 8; k += 256) {
    const int turn = blockIdx.x / 2 + 7 * (k / 8);
    const int dealt = 8 * turn + k % 8;
    const int row = dealt < 50 ? dealt : 50 - 1;
    int begin, end;
    stretch(row, begin, end);
    if (dealt == row && (end - begin > 16)) has_many = true;
  }
  for (int row = first + part; row < last; row += 8) {
    int begin, end;
    stretch(row, begin, end);
    if (!(end - begin > 16) && vector < 64) {
      clear();
      add(row, begin, end, 1);
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        T6_row[lane] = T6_part[lane];
      }
      finish(row);
    }
  }
  if (!__syncthreads_or(has_many)) return;
  __shared__ int many[8];
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
#pragma unroll
  for (int k = threadIdx.x; k < 8; k += 256) {
    const int turn = blockIdx.x / 2 + 7 * (k / 8);
    const int dealt = 8 * turn + k % 8;
    const int row = dealt < 50 ? dealt : 50 - 1;
    int begin, end;
    stretch(row, begin, end);
    if (dealt == row && (end - begin > 16)) many[atomicAdd(&found, 1)] = row;
  }
  __syncthreads();
  __shared__ float T6_parts[8][256];
  for (int k = 0; k < found; ++k) {
    const int row = many[k];
    int begin, end;
    stretch(row, begin, end);
    if (vector < 64) {
      clear();
      add(row, begin + part, end, 8);
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        T6_parts[part][8 * (threadIdx.x % 32) + lane] = T6_part[lane];
      }
    }
    __syncthreads();
    if (part == 0 && vector < 64) {
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        T6_row[lane] = T6_part[lane];
      }
      for (int k = 1; k < 8; ++k) {
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          T6_row[lane] = T6_row[lane] + T6_parts[k][8 * (threadIdx.x % 32) + lane];
        }
      }
      finish(row);
    }
    __syncthreads();
  }
}
