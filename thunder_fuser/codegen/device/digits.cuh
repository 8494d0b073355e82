// The places of an index in the order of one of its digits: bits LOW to LOW + BITS - 1 of an element.
// Blocks have CHUNK places each, of an index whose elements are `stride` apart.

// chunk: count_digits
// counts[d]   of each block: how many of its places have the digit d
//
// An element of the index that is no group ends the launch.
template <int LOW, int BITS, int CHUNK, int THREADS, class I>
TF_FN void count_digits(const I* __restrict__ index, tf::i64 stride, int terms, tf::i64 groups,
                        short* __restrict__ counts) {
  constexpr int DIGITS = 1 << BITS, EACH = CHUNK / THREADS;
  __shared__ int found[DIGITS];
  for (int digit = threadIdx.x; digit < DIGITS; digit += THREADS) found[digit] = 0;
  const int begin = blockIdx.x * CHUNK + threadIdx.x;
  tf::i64 group[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    if (begin + k * THREADS < terms) group[k] = index[(begin + k * THREADS) * stride];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    if (begin + k * THREADS < terms)
      atomicAdd(&found[tf::in_range(group[k], groups) >> LOW & (DIGITS - 1)], 1);
  __syncthreads();
  short* const own = counts + blockIdx.x * (tf::i64)DIGITS;
  for (int digit = threadIdx.x; digit < DIGITS; digit += THREADS) own[digit] = short(found[digit]);
}

// chunk: put_digits place_of put Null
// Where the places of a block go, from what all blocks counted: behind all of smaller digits, and behind
// those of their own digit in blocks before. Warps have a stretch of the chunk each, and keep the order of
// its places.
//
//     order[i]   the i-th place, or what `places` has there
//     keys[i]    its group
//
// A result may be null.
using Null = decltype(nullptr);
TF_FN int place_of(Null, int place) { return place; }
TF_FN int place_of(const int* places, int place) { return places[place]; }
TF_FN void put(Null, int, int) {}
TF_FN void put(int* to, int at, int value) { to[at] = value; }
template <int LOW, int BITS, int CHUNK, int THREADS, class I, class Places, class Order, class Keys>
TF_FN void put_digits(const I* __restrict__ index, tf::i64 stride, Places places, int terms,
                      const short* __restrict__ counts, int blocks, Order order, Keys keys) {
  constexpr int DIGITS = 1 << BITS, WARPS = THREADS / 32, EACH = CHUNK / THREADS;
  constexpr int OWN = (DIGITS + THREADS - 1) / THREADS;  // digits of a thread
  constexpr int PARTS = THREADS / (DIGITS / 2);  // threads that add counts of the same two digits
  constexpr int BATCH = PARTS < 8 ? 16 : 128 / PARTS;  // of their loads on the way together
  static_assert(DIGITS % 32 == 0 && THREADS % (DIGITS / 2) == 0, "each thread has as many counts");
  __shared__ unsigned short found[WARPS][DIGITS];  // of each warp, and then of all warps before it
  __shared__ int all[DIGITS], before[DIGITS], sums[WARPS];  // `all` are then where the block's places go
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int begin = blockIdx.x * CHUNK + warp * (32 * EACH) + lane;
  int key[EACH], rank[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    if (begin + 32 * k < terms) key[k] = (int)index[(begin + 32 * k) * stride];
#pragma unroll
  for (int k = 0; k < DIGITS; k += 32) found[warp][k + lane] = 0;
  for (int digit = threadIdx.x; digit < DIGITS; digit += THREADS) all[digit] = before[digit] = 0;
  __syncthreads();

  const int pair = threadIdx.x % (DIGITS / 2), part = threadIdx.x / (DIGITS / 2);
  int total[2] = {}, smaller[2] = {};
  for (int start = part; start < blocks; start += BATCH * PARTS) {
    const unsigned* const from = reinterpret_cast<const unsigned*>(counts) + (start * (DIGITS / 2) + pair);
    unsigned count[BATCH];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) count[b] = from[b * (PARTS * DIGITS / 2)];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      const unsigned earlier = start + b * PARTS < (int)blockIdx.x ? count[b] : 0;
      total[0] += count[b] & 0xffffu;
      total[1] += count[b] >> 16;
      smaller[0] += earlier & 0xffffu;
      smaller[1] += earlier >> 16;
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    atomicAdd(&all[2 * pair + k], total[k]);
    atomicAdd(&before[2 * pair + k], smaller[k]);
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const bool is_place = begin + 32 * k < terms;
    const int digit = is_place ? key[k] >> LOW & (DIGITS - 1) : DIGITS;
    const unsigned same = __match_any_sync(0xffffffffu, digit);
    const int ahead = __popc(same & ((1u << lane) - 1));
    const int known = is_place ? found[warp][digit] : 0;
    __syncwarp();
    if (is_place && ahead == 0) found[warp][digit] = (unsigned short)(known + __popc(same));
    __syncwarp();
    rank[k] = known + ahead;
  }
  __syncthreads();

  int own = 0;  // places of the thread's digits, and then of all up to them
#pragma unroll
  for (int k = 0; k < OWN; ++k) {
    const int digit = threadIdx.x * OWN + k;
    if (digit < DIGITS) {
      int count = 0;
      for (int w = 0; w < WARPS; ++w) {
        const int here = found[w][digit];
        found[w][digit] = (unsigned short)count;
        count += here;
      }
      own += all[digit];
    }
  }
  int through = own;
  for (int delta = 1; delta < 32; delta *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, through, delta);
    if (lane >= delta) through += other;
  }
  if (lane == 31) sums[warp] = through;
  __syncthreads();
  int start = through - own;
  for (int w = 0; w < warp; ++w) start += sums[w];
#pragma unroll
  for (int k = 0; k < OWN; ++k) {
    const int digit = threadIdx.x * OWN + k;
    if (digit < DIGITS) {
      const int count = all[digit];
      all[digit] = start + before[digit];
      start += count;
    }
  }
  __syncthreads();

  int value[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    value[k] = tf::place_of(places, begin + 32 * k < terms ? begin + 32 * k : terms - 1);
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    if (begin + 32 * k < terms) {
      const int digit = key[k] >> LOW & (DIGITS - 1);
      const int at = all[digit] + found[warp][digit] + rank[k];
      tf::put(order, at, value[k]);
      tf::put(keys, at, key[k]);
    }
}

// chunk: find_ends places_below
// ends[g]: how many places have groups up to g, by `keys` in order. A block has THREADS groups: two warps
// find where their keys begin and end, of 32 stretches at a time, and each thread looks between.
template <class I>
TF_FN int places_below(const I* __restrict__ keys, int terms, tf::i64 group, int lane) {
  int low = 0, high = terms;  // keys before `low` are below the group, those from `high` on are not
  while (low < high) {
    const int step = (high - low + 31) / 32;
    const int next = low + (lane + 1) * step < high ? low + (lane + 1) * step : high;
    const int below = __popc(__ballot_sync(0xffffffffu, (tf::i64)keys[next - 1] < group));
    const int first = low + below * step < high ? low + below * step : high;
    const int last = low + (below + 1) * step < high ? low + (below + 1) * step : high;
    if (below < 32) high = last > first ? last - 1 : first;
    low = first;
  }
  return low;
}
template <int THREADS, class I>
TF_FN void find_ends(const I* __restrict__ keys, int terms, tf::i64 groups, tf::i64* __restrict__ ends) {
  __shared__ int bounds[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const tf::i64 first = (tf::i64)blockIdx.x * THREADS, group = first + threadIdx.x;
  if (warp < 2) {
    const int found = tf::places_below(keys, terms, first + warp * THREADS, lane);
    if (lane == 0) bounds[warp] = found;
  }
  __syncthreads();
  if (group >= groups) return;
  int low = bounds[0], high = bounds[1];
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (keys[middle] <= group)
      low = middle + 1;
    else
      high = middle;
  }
  ends[group] = low;
}
