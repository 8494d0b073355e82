extern "C" __global__ void __launch_bounds__(32)
kernel(const float* __restrict__ T0, const tf::bf16* __restrict__ T1, const float* __restrict__ T3, const int* __restrict__ T5, tf::bf16* __restrict__ T8) {
  const auto load = [&](const int row, const int vector, int (&column)[8], float (&value)[8]) {
    const auto v0 = tf::load<int, 8, 16>(T5 + (32 * row + 8 * vector));
    const auto v1 = tf::load<float, 8, 16>(T3 + (32 * row + 8 * vector));
    const auto v2 = tf::load<tf::bf16, 8, 16>(T1 + (32 * row + 8 * vector));
    tf::LaneChecks checks;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const int T5_0 = v0.v[lane];
      const float T3_0 = v1.v[lane];
      const float T1_0 = tf::convert<float>(v2.v[lane]);
      const float T4_0 = T1_0 * T3_0;
      const tf::i64 T5_1 = tf::convert<tf::i64>(T5_0);
      const tf::i64 T5_2 = checks.in_range(T5_1, 96ll);
      column[lane] = T5_2;
      value[lane] = T4_0;
    }
    checks.end();
  };
  const auto finish = [&](const int row, const int vector, float (&T6_row)[8]) {
    const auto v0 = tf::load<float, 8, 16>(T0 + (96 * row + 8 * vector));
    tf::Vec<tf::bf16, 8> w0;
#pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float T0_0 = v0.v[lane];
      const float T7_0 = T0_0 + T6_row[lane];
      w0.v[lane] = tf::convert<tf::bf16>(T7_0);
    }
    tf::store_hinted<16>(T8 + (96 * row + 8 * vector), w0, 0);
  };
  tf::sum_picks<float, float, 32, 1, 1, 8, 8, false>(600, 4, 96, load, finish);
}
