extern "C" __global__ void __launch_bounds__(256)
kernel(const tf::bf16* __restrict__ T0, const float* __restrict__ T9, float* __restrict__ T8, tf::bf16* __restrict__ T14, unsigned char* workspace, unsigned* tickets) {
  float* const T11_part_of_row = reinterpret_cast<float*>(workspace);
  float* const T12_part_of_row = reinterpret_cast<float*>(workspace + 2400);
  const int part = threadIdx.x;
  const int group = blockIdx.x;
  const auto v0 = tf::load<float, 1, 4>(T9 + (group));
  float T2_part = tf::lowest<float>();
  float T7_part = float(0);
  for (int start = part; start < 5000; start += 1024) {
    tf::Vec<tf::bf16, 8> v1[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int vector = start + k * 256;
      if (vector < 5000) {
        v1[k] = tf::load<tf::bf16, 8, 16>(T0 + (40000 * group + 8 * vector));
      }
    }
    const float before = tf::finite(T2_part);
    auto T2_part_pair = tf::alike<2>(tf::convert<tf::bf16>(tf::lowest<float>()));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int vector = start + k * 256;
      if (vector < 5000) {
        T2_part_pair = tf::in_pairs(T2_part_pair, v1[k], [](auto a, auto b) { return tf::maximum(a, b); });
      }
    }
#pragma unroll
    for (int lane = 0; lane < 2; ++lane) {
      T2_part = tf::maximum(T2_part, tf::convert<float>(T2_part_pair.v[lane]));
    }
    const float T2_row = tf::finite(T2_part);
    T7_part *= tf::fast_exp(before - T2_row);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int vector = start + k * 256;
      if (vector < 5000) {
#pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float T0_1 = tf::convert<float>(v1[k].v[lane]);
          const float T5_0 = T0_1 - T2_row;
          const float T6_0 = tf::fast_exp(T5_0);
          T7_part = T7_part + T6_0;
        }
      }
    }
  }
  const float own = tf::finite(T2_part);
  T2_part = tf::warp_reduce<32>(T2_part, [](float a, float b) -> float { return tf::maximum(a, b); });
  __shared__ float T2_parts[8];
  if (part % 32 == 0) T2_parts[threadIdx.x / 32] = T2_part;
  __syncthreads();
  const float T2_row = tf::combine_warps<8>(T2_parts, [](float a, float b) -> float { return tf::maximum(a, b); });
  T7_part *= tf::fast_exp(own - tf::finite(T2_row));
  T7_part = tf::warp_reduce<32>(T7_part, [](float a, float b) -> float { return a + b; });
  __shared__ float T7_parts[8];
  if (part % 32 == 0) T7_parts[threadIdx.x / 32] = T7_part;
  __syncthreads();
  const float T7_row_total = tf::combine_warps<8>(T7_parts, [](float a, float b) -> float { return a + b; });
  const float T7_row = T7_row_total + (T2_row - T2_row);
  if (part == 0) {
    tf::Vec<float, 1> w0;
    const float T9_0 = v0.v[0];
    const float T8_0 = tf::log(T7_row);
    const float T10_0 = T8_0 * T9_0;
    w0.v[0] = tf::convert<float>(T8_0);
    T11_part_of_row[(group)] = tf::convert<float>(T10_0);
    T12_part_of_row[(group)] = tf::convert<float>(T9_0);
    tf::store_hinted<4>(T8 + (group), w0, 0);
  }
  if (threadIdx.x >= 32) return;
  {
    const int part = threadIdx.x;
    const int bundle = group / 256;
    const int begin = bundle * 256;
    const int end = begin + 256 < 600 ? begin + 256 : 600;
    if (!tf::is_last_warp(tickets + bundle, end - begin)) return;
    float T11_part = float(0);
    float T12_part = float(0);
    for (int start = begin + part; start < end; start += 256) {
      float T11_part_of_row_taken[8];
      float T12_part_of_row_taken[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int place = start + k * 32;
        if (place < end) {
          T11_part_of_row_taken[k] = T11_part_of_row[place];
          T12_part_of_row_taken[k] = T12_part_of_row[place];
        }
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int place = start + k * 32;
        if (place < end) {
          T11_part = T11_part + T11_part_of_row_taken[k];
          T12_part = T12_part + T12_part_of_row_taken[k];
        }
      }
    }
    if (3 > 1) {
      float* const T11_part_of_bundle = reinterpret_cast<float*>(workspace + 4800);
      float* const T12_part_of_bundle = reinterpret_cast<float*>(workspace + 4816);
      {
        T11_part = tf::warp_reduce<32>(T11_part, [](float a, float b) -> float { return a + b; });
        T12_part = tf::warp_reduce<32>(T12_part, [](float a, float b) -> float { return a + b; });
        const float T11_total = T11_part;
        const float T12_total = T12_part;
        if (part == 0) {
          T11_part_of_bundle[bundle] = T11_total;
          T12_part_of_bundle[bundle] = T12_total;
        }
      }
      if (!tf::is_last_warp(tickets + 3, 3)) return;
      T11_part = float(0);
      T12_part = float(0);
      for (int start = part; start < 3; start += 256) {
        float T11_part_of_bundle_taken[8];
        float T12_part_of_bundle_taken[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const int place = start + k * 32;
          if (place < 3) {
            T11_part_of_bundle_taken[k] = T11_part_of_bundle[place];
            T12_part_of_bundle_taken[k] = T12_part_of_bundle[place];
          }
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const int place = start + k * 32;
          if (place < 3) {
            T11_part = T11_part + T11_part_of_bundle_taken[k];
            T12_part = T12_part + T12_part_of_bundle_taken[k];
          }
        }
      }
    }
    T11_part = tf::warp_reduce<32>(T11_part, [](float a, float b) -> float { return a + b; });
    T12_part = tf::warp_reduce<32>(T12_part, [](float a, float b) -> float { return a + b; });
    const float T11_total = T11_part;
    const float T12_total = T12_part;
    if (part == 0) {
      tf::Vec<tf::bf16, 1> w0;
      const float T13_0 = tf::fast_divide(T11_total, T12_total);
      w0.v[0] = tf::convert<tf::bf16>(T13_0);
      tf::store_hinted<2>(T14 + 0, w0, 0);
    }
  }
}
