// The places of an index in the order of its groups.

// chunk: put_in_order
// What the block knows of its OWN groups, which begin at group `blockIdx.x * OWN`. Each warp has a
// stretch of the index; places of a group that are of one warp keep their order, and so do warps. A
// warp keeps those that it finds, and reads its stretch again only if they are too many to keep.
//
//     order[i]   the i-th place: places of group 0, then of group 1, ... each in their own order
//     keys[i]    its group
//     ends[g]    how many places the groups up to g have
//
// A result may be null. The index is a function of the place; an element that is no group ends the launch.
template <int OWN, int THREADS, class Index>
TF_FN void put_in_order(const Index& index, int terms, tf::i64 groups, tf::i64* __restrict__ order,
                        tf::i64* __restrict__ keys, tf::i64* __restrict__ ends) {
  static_assert(OWN <= THREADS, "a thread has at most one group");
  constexpr int WARPS = THREADS / 32, BATCH = 8, STEP = 32 * BATCH;  // loads on their way together
  constexpr int KEPT = 3840 / WARPS;  // 15 KiB, beside 32 KiB of counts
  __shared__ int counts[WARPS][OWN];  // of each warp: its places of a group, then where they go
  __shared__ int kept[WARPS][KEPT];  // of each warp: a place in its stretch, times OWN, and its group
  __shared__ int before[WARPS], sums[WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const tf::i64 first = (tf::i64)blockIdx.x * OWN;
  const int own = groups - first < OWN ? (int)(groups - first) : OWN;
  const int each = (terms + THREADS - 1) / THREADS * 32;
  const int begin = warp * each, end = begin + each < terms ? begin + each : terms, last = end - 1;
  const auto load = [&](int start, tf::i64 (&group)[BATCH]) {
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      const int place = start + 32 * k + lane;
      group[k] = index(place < last ? place : last) - first;
    }
  };
  for (int k = threadIdx.x; k < WARPS * OWN; k += THREADS) counts[k / OWN][k % OWN] = 0;
  __syncthreads();

  int smaller = 0, found = 0;
  for (int start = begin; start < end; start += STEP) {
    tf::i64 group[BATCH];
    load(start, group);
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      const bool is_place = start + 32 * k + lane < end;
      if (blockIdx.x == 0 && is_place) tf::in_range(group[k], groups);
      smaller += is_place && group[k] < 0;
      const bool is_own = is_place && group[k] >= 0 && group[k] < own;
      const unsigned owners = __ballot_sync(0xffffffffu, is_own);
      if (is_own) {
        atomicAdd(&counts[warp][group[k]], 1);
        const int at = found + __popc(owners & ((1u << lane) - 1));
        if (at < KEPT) kept[warp][at] = (start - begin + 32 * k + lane) * OWN + (int)group[k];
      }
      found += __popc(owners);
    }
  }
  for (int delta = 16; delta > 0; delta /= 2) smaller += __shfl_xor_sync(0xffffffffu, smaller, delta);
  if (lane == 0) before[warp] = smaller;
  __syncthreads();

  int total = 0;  // of the thread's group, and then of all up to it in the warp
  if (threadIdx.x < own) {
    for (int k = 0; k < WARPS; ++k) {
      const int count = counts[k][threadIdx.x];
      counts[k][threadIdx.x] = total;
      total += count;
    }
  }
  int through = total;
  for (int delta = 1; delta < 32; delta *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, through, delta);
    if (lane >= delta) through += other;
  }
  if (lane == 31) sums[warp] = through;
  __syncthreads();
  for (int k = 0; k < WARPS; ++k) through += before[k] + (k < warp ? sums[k] : 0);
  if (threadIdx.x < own) {
    for (int k = 0; k < WARPS; ++k) counts[k][threadIdx.x] += through - total;
    if (ends) ends[first + threadIdx.x] = through;
  }
  if (!order && !keys) return;
  __syncthreads();

  const auto put = [&](bool is_own, int group, tf::i64 place) {
    const int mine = is_own ? group : OWN;
    const unsigned same = __match_any_sync(0xffffffffu, mine);
    const int rank = __popc(same & ((1u << lane) - 1));
    const int at = is_own ? counts[warp][mine] + rank : 0;
    __syncwarp();
    if (is_own) {
      if (rank == 0) counts[warp][mine] = at + __popc(same);
      if (order) order[at] = place;
      if (keys) keys[at] = first + mine;
    }
    __syncwarp();
  };
  if (found <= KEPT) {
    for (int start = 0; start < found; start += 32) {
      const bool is_own = start + lane < found;
      const int one = is_own ? kept[warp][start + lane] : 0;
      put(is_own, one % OWN, begin + one / OWN);
    }
    return;
  }
  for (int start = begin; start < end; start += STEP) {
    tf::i64 group[BATCH];
    load(start, group);
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      const bool is_own = start + 32 * k + lane < end && group[k] >= 0 && group[k] < own;
      if (__any_sync(0xffffffffu, is_own)) put(is_own, (int)group[k], start + 32 * k + lane);
    }
  }
}
