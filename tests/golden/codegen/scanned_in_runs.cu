extern "C" __global__ void __launch_bounds__(256, 4)
kernel(const tf::bf16* __restrict__ T0, tf::bf16* __restrict__ T1) {
  const int part = threadIdx.x % 4;
  const int side = threadIdx.x / 32 / 2 * 16 + threadIdx.x % 32 / 4 * 2 + threadIdx.x / 32 % 2;
  const int group = blockIdx.x;
  int turns = 3;
  while ((30016 * (turns - 1) + 64 * group + 0) >= 90001) --turns;
  const int wanted = side;
  TF_DYNAMIC_SHARED(unsigned char, shared);
  tf::bf16* const v0_slots = reinterpret_cast<tf::bf16*>(shared);
  tf::bf16* const w0_rows = reinterpret_cast<tf::bf16*>(shared + 24192);
  __shared__ tf::Mailbox arrived[3];
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < 3; ++slot) tf::open_mail(arrived[slot]);
    tf::show_stretches();
  }
  __syncthreads();
  const auto send = [&](const int turn) {
    const int start = (30016 * turn + 64 * group + 0);
    tf::bf16* const v0_rows = v0_slots + int(turn % 3) * 4032;
    if (threadIdx.x == 0) {
      tf::Mailbox& mail = arrived[turn % 3];
      const int v0_rows_count = int(5670056 - start * 63 < 4032 ? 5670056 - start * 63 : 4032);
      tf::expect_mail(mail, v0_rows_count * 2);
      tf::copy_stretch(v0_rows, T0 + start * 63, v0_rows_count, mail);
    }
    if (threadIdx.x < 7) {
      const int at = 5670056 + threadIdx.x;
      const int place = at - start * 63;
      if (place >= 0 && place < 4032) v0_rows[place] = T0[at];
    }
  };
#pragma unroll 1
  for (int turn = 0; turn < 2 && turn < turns; ++turn) send(turn);
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    const int start = (30016 * turn + 64 * group + 0);
    tf::bf16* const v0_rows = v0_slots + int(turn % 3) * 4032;
    tf::await_mail(arrived[turn % 3], turn / 3 % 2);
    if (threadIdx.x == 0) tf::await_stores();
    __syncthreads();
    if (turn + 2 < turns) send(turn + 2);
    const bool is_active = (30016 * turn + 64 * group + wanted) < 90001;
    const int side = is_active ? wanted : 0;
    const int place = side * 63;
    tf::Vec<tf::bf16, 1> v0[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int vector = part * 16 + k;
      if (part < (63 - k + 15) / 16) {
        v0[k] = tf::load<tf::bf16, 1, 2>(v0_rows + place + vector);
      }
    }
    float T1_scan[16][1];
#pragma unroll
    for (int k = 0; k < 16; ++k)
#pragma unroll
      for (int lane = 0; lane < 1; ++lane) T1_scan[k][lane] = float(0);
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int vector = part * 16 + k;
      if (part < (63 - k + 15) / 16) {
        const float T0_0 = tf::convert<float>(v0[k].v[0]);
        T1_scan[k][0] = T1_scan[k][0] + T0_0;
      }
    }
    tf::scan_runs<4, true>(T1_scan, part, float(0), [](float a, float b) -> float { return a + b; });
    if (is_active) {
#pragma unroll
      for (int k = 0; k < 16; ++k) {
        const int vector = part * 16 + k;
        if (part < (63 - k + 15) / 16) {
          tf::Vec<tf::bf16, 1> w0;
          w0.v[0] = tf::convert<tf::bf16>(T1_scan[k][0]);
          tf::store<2>(w0_rows + place + vector, w0);
        }
      }
    }
    tf::show_stretches();
    __syncthreads();
    if (threadIdx.x == 0) {
      const int w0_rows_count = int(5670056 - start * 63 < 4032 ? 5670056 - start * 63 : 4032);
      tf::store_stretch(T1 + start * 63, w0_rows, w0_rows_count);
    }
    if (threadIdx.x < 7) {
      const int at = 5670056 + threadIdx.x;
      const int place = at - start * 63;
      if (place >= 0 && place < 4032) T1[at] = w0_rows[place];
    }
  }
  if (threadIdx.x == 0) tf::await_stores();
  __syncthreads();
}
