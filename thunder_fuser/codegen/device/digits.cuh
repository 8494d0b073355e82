// The places of an index in the order of one of its digits: bits LOW to LOW + BITS - 1 of an element.
// Blocks have CHUNK places each, ROUND at a time, of an index that is a function of the place. What they
// read beside it is loaded by __ldcg, and no pointer is the only one to its memory: else loads might be
// moved behind later barriers.

// chunk: clear
// Zeros, written by all threads of the block.
template <int SIZE, int THREADS, class T>
TF_FN void clear(T* all) {
#pragma unroll
  for (int k = 0; k < SIZE; k += THREADS)
    if (k + THREADS <= SIZE || k + threadIdx.x < SIZE) all[k + threadIdx.x] = 0;
}

// chunk: count_digits
// counts[d]   of each block: how many of its places have the digit d
//
// An element of the index that is no group ends the launch.
template <int LOW, int BITS, int CHUNK, int ROUND, int THREADS, class Index>
TF_FN void count_digits(const Index& index, int terms, tf::i64 groups, short* __restrict__ counts) {
  constexpr int DIGITS = 1 << BITS, EACH = ROUND / THREADS;
  __shared__ int found[DIGITS];
#pragma unroll 1
  for (int round = 0; round < CHUNK; round += ROUND) {
    const int begin = blockIdx.x * CHUNK + round + threadIdx.x;
    tf::i64 group[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      group[k] = index(begin + k * THREADS < terms ? begin + k * THREADS : terms - 1);
    if (round == 0) {
      tf::clear<DIGITS, THREADS>(found);
      __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      if (begin + k * THREADS < terms)
        atomicAdd(&found[tf::in_range(group[k], groups) >> LOW & (DIGITS - 1)], 1);
  }
  __syncthreads();
  short* const own = counts + blockIdx.x * (tf::i64)DIGITS;
  for (int digit = threadIdx.x; digit < DIGITS; digit += THREADS) own[digit] = short(found[digit]);
}

// chunk: lanes_of
// The lanes that have the same lowest BITS bits. A vote on each takes as long whatever the digits are.
template <int BITS>
TF_FN unsigned lanes_of(int digit) {
  unsigned same = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < BITS; ++bit) {
    const bool is_set = tf::settled(digit & 1 << bit) != 0;  // tested once
    const unsigned set = __ballot_sync(0xffffffffu, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}

// chunk: rank_digits
// rank[k]    how many places of the warp before the k-th one of the thread have its digit
// found[d]   how many places of the warp have the digit d; a zero before
template <int LOW, int BITS, int EACH>
TF_FN void rank_digits(const int (&key)[EACH], int (&rank)[EACH], unsigned short* found) {
  const int lane = threadIdx.x % 32;
  unsigned same[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k) same[k] = tf::lanes_of<BITS>(key[k] >> LOW);
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    unsigned short& count = found[key[k] >> LOW & ((1 << BITS) - 1)];
    rank[k] = count + __popc(same[k] & ((1u << lane) - 1));
    __syncwarp();
    if (same[k] >> lane == 1) count = (unsigned short)(rank[k] + 1);
    __syncwarp();
  }
}

// chunk: DigitCounts
// What all blocks counted of two neighbouring digits, or a part of the blocks where several threads have
// the same. Two counts are read as one word, and a few words added as one.
template <int BITS, int CHUNK, int THREADS, int CHUNKS>
struct DigitCounts {
  static constexpr int PAIRS = 1 << BITS - 1, PARTS = THREADS / PAIRS;
  static constexpr int ALL = CHUNKS / PARTS;
  static constexpr int MOST = (CHUNK < 1 << 14 ? 16 : 8) * (THREADS < 1024 ? 2 : 1);  // as registers are
  static constexpr int BATCH = ALL < MOST ? ALL : MOST, STEP = BATCH * PARTS;  // loads on their way, blocks
  static constexpr int FEW = CHUNK < 1 << 14 ? (BATCH < 4 ? BATCH : 4) : 1;
  static_assert(THREADS % PAIRS == 0 && FEW * CHUNK < 1 << 16, "a few counts fit in 16 bits");
  unsigned count[BATCH];
  int total[2] = {}, smaller[2] = {};

  TF_FN static int part() { return threadIdx.x / PAIRS; }
  TF_FN static int pair() { return threadIdx.x % PAIRS; }
  TF_FN void load(const short* counts, int start) {
    const int first = (start + part()) * PAIRS + pair();
    const unsigned* const from = reinterpret_cast<const unsigned*>(counts) + first;
#pragma unroll
    for (int b = 0; b < BATCH; ++b) count[b] = __ldcg(from + b * (PARTS * PAIRS));
  }
  TF_FN void add(int start) {
    const int earlier = (int)blockIdx.x - start - part();  // blocks
#pragma unroll
    for (int few = 0; few < BATCH; few += FEW) {
      unsigned sum = 0, below = 0;
#pragma unroll
      for (int b = few; b < few + FEW; ++b) {
        sum += count[b];
        below += b * PARTS < earlier ? count[b] : 0;
      }
      total[0] += sum & 0xffffu;
      total[1] += sum >> 16;
      smaller[0] += below & 0xffffu;
      smaller[1] += below >> 16;
    }
  }
  // all[d]      how many places of all blocks have the digit d; a zero before
  // before[d]   how many places of the blocks before this one; a zero before
  TF_FN void share(int* all, int* before) const {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      atomicAdd(&all[2 * pair() + k], total[k]);
      atomicAdd(&before[2 * pair() + k], smaller[k]);
    }
  }
};

// chunk: start_digits
// Of a round, in whose order a block has its places:
// found[w][p]   how many places of the warp w have each of two neighbouring digits, in 16 bits
//     =>        where they begin in the order of the block
// all[d]        how many places of all blocks have the digit d, in the first round
//     =>        what a place of the digit in the order of the block lacks to that in the order of all
// before[d]     how many places of the blocks before have the digit d; later where those of the round begin
//     =>        where those of the next round begin
template <int PAIRS, int WARPS>
TF_FN void start_digits(unsigned* found, int* all, int* before, bool is_first) {
  constexpr int OWNERS = (PAIRS + 31) / 32;  // warps that have digits
  __shared__ tf::i64 sums[OWNERS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = threadIdx.x;
  const bool is_pair = pair < PAIRS;
  unsigned counted = 0;
  int first = 0, second = 0;
  tf::i64 own = 0, through = 0;  // of the block in the low half, of all blocks in the high one
  if (warp < OWNERS) {
    if (is_pair) {
#pragma unroll
      for (int w = 0; w < WARPS; ++w) counted += found[w * PAIRS + pair];
      if (is_first) {
        first = all[2 * pair];
        second = all[2 * pair + 1];
      }
      own = (tf::i64)(first + second) << 32 | (counted & 0xffffu) + (counted >> 16);
    }
    through = own;
    for (int delta = 1; delta < 32; delta *= 2) {
      const tf::i64 other = __shfl_up_sync(0xffffffffu, through, delta);
      if (lane >= delta) through += other;
    }
    if (lane == 31) sums[warp] = through;
  }
  __syncthreads();
  if (!is_pair) return;
  tf::i64 start = through - own;
#pragma unroll
  for (int w = 0; w < OWNERS; ++w) start += w < warp ? sums[w] : 0;
  const int smaller = (int)(start >> 32), begin = (int)start, next = begin + (counted & 0xffffu);
  const int at_first = smaller + before[2 * pair], at_second = smaller + first + before[2 * pair + 1];
  all[2 * pair] = at_first - begin;
  all[2 * pair + 1] = at_second - next;
  before[2 * pair] = at_first + (counted & 0xffffu);
  before[2 * pair + 1] = at_second + (counted >> 16);
  unsigned at = (unsigned)next << 16 | (unsigned)begin;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    const unsigned count = found[w * PAIRS + pair];
    found[w * PAIRS + pair] = at;
    at += count;
  }
}

// chunk: put_ordered put Null
// The places of a round, `size` at most, to where `local` says in shared memory, and on to where they go.
using Null = decltype(nullptr);
TF_FN void put(Null, int, int) {}
TF_FN void put(int* to, int at, int value) { to[at] = value; }
template <int LOW, int BITS, int THREADS, int EACH, class Order, class Keys>
TF_FN void put_ordered(int* ordered, const int (&local)[EACH], const int (&key)[EACH],
                       const int (&place)[EACH], const int* all, int size, Order order, Keys keys) {
  int at[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k) ordered[local[k]] = key[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int own = k * THREADS + threadIdx.x, moved = ordered[own];
    at[k] = own < size ? all[moved >> LOW & ((1 << BITS) - 1)] + own : -1;
    if (at[k] >= 0) tf::put(keys, at[k], moved);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k) ordered[local[k]] = place[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    if (at[k] >= 0) tf::put(order, at[k], ordered[k * THREADS + threadIdx.x]);
}

// chunk: put_digits place_of
// Where the places of a block go, from what all blocks counted: behind all of smaller digits, and behind
// those of their own digit in blocks before. Warps have a stretch of a round each, and keep the order of
// its places. They are put in order in shared memory first, so places of a digit are stored side by side.
//
//     order[i]   the i-th place, or what `places` has there
//     keys[i]    its group
//
// A result may be null.
template <class Places>
constexpr bool HAS_PLACES = true;
template <>
constexpr bool HAS_PLACES<tf::Null> = false;
TF_FN int place_of(tf::Null, int place) { return place; }
TF_FN int place_of(const int* places, int place) { return __ldcg(places + place); }
template <int LOW, int BITS, int CHUNK, int ROUND, int THREADS, int CHUNKS, class Index, class Places,
          class Order, class Keys>
TF_FN void put_digits(const Index& index, Places places, int terms, const short* __restrict__ counts,
                      int blocks, Order order, Keys keys) {
  constexpr int DIGITS = 1 << BITS, PAIRS = DIGITS / 2, WARPS = THREADS / 32, EACH = ROUND / THREADS;
  __shared__ union {
    unsigned found[WARPS * PAIRS];  // of each warp and two digits: how many, and then where they begin
    int ordered[ROUND];
  } block;
  __shared__ int all[DIGITS], before[DIGITS];
  const int warp = threadIdx.x / 32;
  unsigned short* const found = reinterpret_cast<unsigned short*>(block.found) + warp * DIGITS;
  tf::DigitCounts<BITS, CHUNK, THREADS, CHUNKS> counted;
  const int last = blocks - counted.STEP;
  // Of 1,024 threads, places beside leave no registers for the next round's keys.
  constexpr bool IS_AHEAD = THREADS < 1024 || !HAS_PLACES<Places>;
  int next[EACH];
  const auto load = [&](int begin) {
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      next[k] = (int)index(begin + 32 * k < terms ? begin + 32 * k : terms - 1);
  };
  const int own = warp * (32 * EACH) + threadIdx.x % 32;
#pragma unroll 1
  for (int round = 0; round < CHUNK; round += ROUND) {
    const int start = blockIdx.x * CHUNK + round, begin = start + own;
    int key[EACH], local[EACH], place[EACH];
    if (!IS_AHEAD || round == 0) load(begin);
    // Behind the last place all bits are set, so that what is no place comes last.
#pragma unroll
    for (int k = 0; k < EACH; ++k) key[k] = begin + 32 * k < terms ? next[k] : -1;
    if (round > 0) __syncthreads();
    tf::clear<WARPS * PAIRS, THREADS>(block.found);
    if (round == 0) tf::clear<DIGITS, THREADS>(all), tf::clear<DIGITS, THREADS>(before);
    __syncthreads();

    if (round == 0) {
      for (int batch = 0; batch < last; batch += counted.STEP) {
        counted.load(counts, batch);
        counted.add(batch);
      }
      counted.load(counts, last);
    }
    tf::rank_digits<LOW, BITS>(key, local, found);  // while the last counts are on their way
    if (round == 0) {
      counted.add(last);
      counted.share(all, before);
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      place[k] = tf::place_of(places, begin + 32 * k < terms ? begin + 32 * k : terms - 1);
    if (IS_AHEAD && round + ROUND < CHUNK) load(begin + ROUND);  // on its way while this one is put
    __syncthreads();
    tf::start_digits<PAIRS, WARPS>(block.found, all, before, round == 0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; ++k) local[k] += found[key[k] >> LOW & (DIGITS - 1)];
    __syncthreads();
    tf::put_ordered<LOW, BITS, THREADS>(block.ordered, local, key, place, all, terms - start, order, keys);
    if (start + ROUND >= terms) return;
  }
}

// chunk: find_ends places_below
// ends[g]: how many places have groups up to g, by `keys` in order. A thread has EACH groups: two warps
// or one find where the keys of the block begin and end, of 32 stretches at a time, and each thread looks
// between.
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
template <int THREADS, int EACH, class I>
TF_FN void find_ends(const I* __restrict__ keys, int terms, tf::i64 groups, tf::i64* __restrict__ ends) {
  constexpr int WARPS = THREADS / 32;  // with all of their lanes
  __shared__ int bounds[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const tf::i64 first = (tf::i64)blockIdx.x * (EACH * THREADS), own = first + threadIdx.x;
  for (int k = warp; k < 2 && warp < WARPS; k += WARPS) {
    const int found = tf::places_below(keys, terms, first + k * (EACH * THREADS), lane);
    if (lane == 0) bounds[k] = found;
  }
  __syncthreads();
  int end[EACH];  // no more than `left` keys that are not below it belong to the group
#pragma unroll
  for (int k = 0; k < EACH; ++k) end[k] = bounds[0];
  for (int left = bounds[1] - bounds[0]; left > 0; left /= 2) {
    const int half = (left + 1) / 2;
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      if (keys[end[k] + half - 1] <= own + k * THREADS) end[k] += half;
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k)
    if (own + k * THREADS < groups) ends[own + k * THREADS] = end[k];
}
