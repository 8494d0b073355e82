extern "C" __global__ void __launch_bounds__(128)
kernel(const tf::bf16* __restrict__ T0, float* __restrict__ T4, unsigned char* workspace, unsigned* tickets) {
  float* const T3_part_of_row = reinterpret_cast<float*>(workspace);
  const int part = threadIdx.x % 4;
  const int wanted = blockIdx.x * 32 + threadIdx.x / 4;
  const bool is_active = wanted < 300;
  const int group = is_active ? wanted : 300 - 1;
  tf::Vec<tf::bf16, 8> v0[3];
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const int vector = k * 4 + part;
    if ((k + 1) * 4 <= 9 || vector < 9) {
      v0[k] = tf::load<tf::bf16, 8, 16>(T0 + (72 * group + 8 * vector));
    }
  }
  float T1_part = tf::lowest<float>();
  auto T1_part_pair = tf::alike<2>(tf::convert<tf::bf16>(tf::lowest<float>()));
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const int vector = k * 4 + part;
    if ((k + 1) * 4 <= 9 || vector < 9) {
      T1_part_pair = tf::in_pairs(T1_part_pair, v0[k], [](auto a, auto b) { return tf::maximum(a, b); });
    }
  }
#pragma unroll
  for (int lane = 0; lane < 2; ++lane) {
    T1_part = tf::maximum(T1_part, tf::convert<float>(T1_part_pair.v[lane]));
  }
  T1_part = tf::warp_reduce<4>(T1_part, [](float a, float b) -> float { return tf::maximum(a, b); });
  const float T1_row = T1_part;
  if (is_active) {
    if (part == 0) {
      T3_part_of_row[(group)] = tf::convert<float>(T1_row);
    }
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  {
    const int part = threadIdx.x;
    const int bundle = blockIdx.x * 32 / 256;
    const int begin = bundle * 256;
    const int end = begin + 256 < 300 ? begin + 256 : 300;
    if (!tf::is_last_warp(tickets + bundle, (end - begin + 31) / 32)) return;
    float T3_part = float(0);
    for (int start = begin + part; start < end; start += 256) {
      float T3_part_of_row_taken[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int place = start + k * 32;
        if (place < end) {
          T3_part_of_row_taken[k] = T3_part_of_row[place];
        }
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int place = start + k * 32;
        if (place < end) {
          T3_part = T3_part + T3_part_of_row_taken[k];
        }
      }
    }
    if (2 > 1) {
      float* const T3_part_of_bundle = reinterpret_cast<float*>(workspace + 1200);
      {
        T3_part = tf::warp_reduce<32>(T3_part, [](float a, float b) -> float { return a + b; });
        const float T3_total = T3_part;
        if (part == 0) {
          T3_part_of_bundle[bundle] = T3_total;
        }
      }
      if (!tf::is_last_warp(tickets + 2, 2)) return;
      T3_part = float(0);
      for (int start = part; start < 2; start += 256) {
        float T3_part_of_bundle_taken[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const int place = start + k * 32;
          if (place < 2) {
            T3_part_of_bundle_taken[k] = T3_part_of_bundle[place];
          }
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const int place = start + k * 32;
          if (place < 2) {
            T3_part = T3_part + T3_part_of_bundle_taken[k];
          }
        }
      }
    }
    T3_part = tf::warp_reduce<32>(T3_part, [](float a, float b) -> float { return a + b; });
    const float T3_total = T3_part;
    if (part == 0) {
      tf::Vec<float, 1> w0;
      const float T4_0 = tf::divided_by(T3_total, 300.0f);
      w0.v[0] = tf::convert<float>(T4_0);
      tf::store_hinted<4>(T4 + 0, w0, 0);
    }
  }
}
