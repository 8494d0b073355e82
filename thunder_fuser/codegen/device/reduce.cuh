// Reductions over the threads of a warp and the warps of a block, in a fixed order.

// chunk: shuffle_xor warp_reduce
// The value combined over WIDTH neighbouring threads, a power of two; all of them get it. Every thread
// of the warp takes part.
template <class T>
TF_FN T shuffle_xor(T x, int mask) {
  if constexpr (sizeof(T) < 4)
    return static_cast<T>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), mask));
  else
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <int WIDTH, class T, class Combine>
TF_FN T warp_reduce(T x, Combine combine) {
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) x = combine(x, tf::shuffle_xor(x, mask));
  return x;
}

// chunk: met_rows
// Of N rows, a power of two, of each of which all threads of a warp have a value, the combined one of
// row `lane / (32 / N)`: at each step a thread hands over what it has of half of the rows.
template <int N, class T, class Combine>
TF_FN T met_rows(T (&rows)[N], Combine combine) {
  int mask = 16;
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2, mask /= 2) {
    const bool is_behind = threadIdx.x & mask;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const T kept = is_behind ? rows[k + half] : rows[k];
      const T given = is_behind ? rows[k] : rows[k + half];
      rows[k] = combine(kept, tf::shuffle_xor(given, mask));
    }
  }
  return tf::warp_reduce<32 / N>(rows[0], combine);
}

// chunk: TF_PAIRS
// Two 16-bit floats of a register at a time.
#if !defined(TF_HOST) && __CUDA_ARCH__ >= 800
#define TF_PAIRS(type, name, instruction)                                                        \
  TF_FN tf::Vec<type, 2> name(tf::Vec<type, 2> a, tf::Vec<type, 2> b) {                          \
    unsigned pair = static_cast<unsigned>(a.v[1].data) << 16 | a.v[0].data;                      \
    asm(instruction "." #type "x2 %0, %0, %1;"                                                   \
        : "+r"(pair)                                                                             \
        : "r"(static_cast<unsigned>(b.v[1].data) << 16 | b.v[0].data));                          \
    a.v[0].data = static_cast<unsigned short>(pair);                                             \
    a.v[1].data = static_cast<unsigned short>(pair >> 16);                                       \
    return a;                                                                                    \
  }
#else
#define TF_PAIRS(type, name, instruction)                                                        \
  TF_FN tf::Vec<type, 2> name(tf::Vec<type, 2> a, tf::Vec<type, 2> b) {                          \
    for (int k = 0; k < 2; ++k)                                                                  \
      a.v[k] = tf::convert<type>(name(tf::convert<float>(a.v[k]), tf::convert<float>(b.v[k])));  \
    return a;                                                                                    \
  }
#endif

// chunk: TF_SIZES
// The distances of two from zero.
#if !defined(TF_HOST) && __CUDA_ARCH__ >= 800
#define TF_SIZES(type)                                                                           \
  TF_FN tf::Vec<type, 2> sizes(tf::Vec<type, 2> a) {                                             \
    unsigned pair = static_cast<unsigned>(a.v[1].data) << 16 | a.v[0].data;                      \
    asm("abs." #type "x2 %0, %0;" : "+r"(pair));                                                 \
    a.v[0].data = static_cast<unsigned short>(pair);                                             \
    a.v[1].data = static_cast<unsigned short>(pair >> 16);                                       \
    return a;                                                                                    \
  }
#else
#define TF_SIZES(type)                                                                           \
  TF_FN tf::Vec<type, 2> sizes(tf::Vec<type, 2> a) {                                             \
    for (int k = 0; k < 2; ++k)                                                                  \
      a.v[k] = tf::convert<type>(tf::abs(tf::convert<float>(a.v[k])));                           \
    return a;                                                                                    \
  }
#endif

// chunk: sizes when bf16
TF_SIZES(bf16)

// chunk: sizes when f16
TF_SIZES(f16)

// chunk: in_pairs when bf16
TF_PAIRS(bf16, maximum, "max.NaN")
TF_PAIRS(bf16, minimum, "min.NaN")

// chunk: in_pairs when f16
TF_PAIRS(f16, maximum, "max.NaN")
TF_PAIRS(f16, minimum, "min.NaN")

// chunk: in_pairs alike
// Each pair of x combined with that of `so_far` at the same place, of fewer by turns.
template <class T, int M, int N, class Combine>
TF_FN tf::Vec<T, M> in_pairs(tf::Vec<T, M> so_far, const tf::Vec<T, N>& x, Combine combine) {
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    T* const own = so_far.v + k % M;
    const auto pair = combine(tf::Vec<T, 2>{own[0], own[1]}, tf::Vec<T, 2>{x.v[k], x.v[k + 1]});
    own[0] = pair.v[0], own[1] = pair.v[1];
  }
  return so_far;
}
template <int N, class T>
TF_FN tf::Vec<T, N> alike(T x) {
  tf::Vec<T, N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y.v[k] = x;
  return y;
}

// chunk: combine_warps
// One value per warp, combined by every thread: neighbours, then pairs of them, so that 32 sums are
// rounded five times one after another and not 31 times.
template <int WARPS, class T, class Combine>
TF_FN T combine_warps(const T* values, Combine combine) {
  if constexpr (WARPS == 1) {
    return values[0];
  } else {
    constexpr int FIRST = (WARPS + 1) / 2;
    const T first = tf::combine_warps<FIRST>(values, combine);
    return combine(first, tf::combine_warps<WARPS - FIRST>(values + FIRST, combine));
  }
}

// chunk: combine_by_lanes
// COUNT values, as many as a warp has lanes or more, combined by all lanes of one; all of them get it.
template <int COUNT, class T, class Combine>
TF_FN T combine_by_lanes(const T* values, Combine combine) {
  const int lane = threadIdx.x % 32;
  T x = values[lane];
#pragma unroll
  for (int k = 32; k < COUNT; k += 32)
    if (k + lane < COUNT) x = combine(x, values[k + lane]);
  return tf::warp_reduce<32>(x, combine);
}

// chunk: combine_columns
// DOWN parts of each of some columns, combined into the first: by a thread a column or, where there are
// more threads, by several, each with every so many-th part. All THREADS of the block take part. The last
// PADDING places of a part are no columns.
template <int THREADS, int PADDING = 0, int DOWN, int PLACES, class T, class Combine>
TF_FN void combine_columns(T (&parts)[DOWN][PLACES], Combine combine) {
  constexpr int WIDTH = PLACES - PADDING, SHARERS = THREADS > WIDTH ? THREADS / WIDTH : 1;
  const int own = SHARERS > 1 ? threadIdx.x / WIDTH : 0, start = threadIdx.x - own * WIDTH;
#pragma unroll
  for (int column = start; column < WIDTH; column += THREADS) {
    T whole = parts[own][column];
#pragma unroll 4
    for (int other = own + SHARERS; other < DOWN; other += SHARERS) {
      whole = combine(whole, parts[other][column]);
    }
    parts[own][column] = whole;
  }
  __syncthreads();
#pragma unroll
  for (int half = SHARERS / 2; half > 0; half /= 2) {
    if (own < half) parts[own][start] = combine(parts[own][start], parts[own + half][start]);
    __syncthreads();
  }
}

// chunk: scan_parts
// The parts of each column but the last become what all before them add up to, and the last one what all
// do. THREADS of the block, all, take part.
template <int THREADS, int PARTS, int PLACES, class T, class Combine>
TF_FN void scan_parts(T (&parts)[PARTS][PLACES], T identity, Combine combine) {
  for (int column = threadIdx.x; column < PLACES; column += THREADS) {
    T so_far = identity;
#pragma unroll 4
    for (int k = 0; k < PARTS - 1; ++k) {
      const T own = parts[k][column];
      parts[k][column] = so_far;
      so_far = combine(so_far, own);
    }
    parts[PARTS - 1][column] = so_far;
  }
  __syncthreads();
}

// chunk: lagging
// Where the column of a lane lies among those of ACROSS vectors, lane by lane, if vectors begin `lag` lanes
// before their columns: one before all of them where vector 0 begins with others.
template <int LANES, int ACROSS>
TF_FN int lagging(int lane, int lag, int place) {
  return (lane - lag + LANES) % LANES * ACROSS + place - (lane < lag);
}

// chunk: share_lanes meet_in_warp combine_parts
// A state per lane of a thread, combined over the threads of a warp that have the same place among ACROSS
// neighbours, whose number is MASK at first: each of them is left with those of some lanes, from the one on
// that is returned. Every thread of the warp takes part.
template <int MASK, int COUNT, class T, class Combine>
TF_FN int share_lanes(T* x, Combine combine, int first) {
  if constexpr (MASK >= 32) {
    return first;
  } else if constexpr (COUNT == 1) {
    x[0] = combine(x[0], tf::shuffle_xor(x[0], MASK));
    return tf::share_lanes<2 * MASK, 1>(x, combine, first);
  } else {
    constexpr int HALF = COUNT / 2;
    const bool is_upper = threadIdx.x & MASK;
#pragma unroll
    for (int lane = 0; lane < HALF; ++lane) {
      const T own = is_upper ? x[lane + HALF] : x[lane], other = is_upper ? x[lane] : x[lane + HALF];
      x[lane] = combine(own, tf::shuffle_xor(other, MASK));
    }
    return tf::share_lanes<2 * MASK, HALF>(x, combine, is_upper ? first + HALF : first);
  }
}
// What the threads of a warp have of the same columns is one of PARTS, those of the same lane side by side.
template <int ACROSS, int LANES, int PARTS, int PLACES, class T, class Combine>
TF_FN void meet_in_warp(T (&x)[LANES], T (&parts)[PARTS][PLACES], Combine combine) {
  constexpr int LEFT = ACROSS * LANES > 32 ? ACROSS * LANES / 32 : 1;
  const int first = tf::share_lanes<ACROSS, LANES>(x, combine, 0);
  const int part = threadIdx.x / 32, place = threadIdx.x % ACROSS;
  if (ACROSS * LANES < 32 && threadIdx.x % 32 >= ACROSS * LANES) return;  // they have the same
#pragma unroll
  for (int lane = 0; lane < LEFT; ++lane) parts[part][(first + lane) * ACROSS + place] = x[lane];
}
// The parts of each column combined into the first one, by a thread a column, from thread FIRST of the
// block on.
template <int THREADS, int FIRST, int PARTS, int PLACES, class T, class Combine>
TF_FN void combine_parts(T (&parts)[PARTS][PLACES], Combine combine) {
  for (int column = (threadIdx.x + THREADS - FIRST) % THREADS; column < PLACES; column += THREADS) {
    T whole = parts[0][column];
#pragma unroll
    for (int k = 1; k < PARTS; ++k) whole = combine(whole, parts[k][column]);
    parts[0][column] = whole;
  }
}

// chunk: combine_sides
// The value combined over the threads of a warp that have the same place among THREADS neighbours; all
// of them get it. Every thread of the warp takes part.
template <int THREADS, class T, class Combine>
TF_FN T combine_sides(T x, Combine combine) {
#pragma unroll
  for (int mask = THREADS; mask < 32; mask *= 2) x = combine(x, tf::shuffle_xor(x, mask));
  return x;
}

// chunk: shuffle_along
// The value of the thread `delta` before this one, or behind it, among WIDTH neighbours; the own
// value where there is none.
template <int WIDTH, bool REVERSE, class T>
TF_FN T shuffle_along(T x, int delta) {
  if constexpr (REVERSE)
    return __shfl_down_sync(0xffffffffu, x, delta, WIDTH);
  else
    return __shfl_up_sync(0xffffffffu, x, delta, WIDTH);
}

// chunk: scan_by_warps
// What scan_parts does, of few columns with many parts each: a warp has a column, and a lane some parts that
// follow each other. All THREADS of the block take part, those of whole warps with a column.
template <int THREADS, int PARTS, int PLACES, class T, class Combine>
TF_FN void scan_by_warps(T (&parts)[PARTS][PLACES], T identity, Combine combine) {
  constexpr int COUNT = PARTS - 1, LENGTH = (COUNT + 31) / 32, WARPS = THREADS / 32;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = lane * LENGTH;
  for (int column = warp < WARPS ? warp : PLACES; column < PLACES; column += WARPS) {
    T own[LENGTH], sum = identity;
#pragma unroll
    for (int k = 0; k < LENGTH; ++k) own[k] = first + k < COUNT ? parts[first + k][column] : identity;
#pragma unroll
    for (int k = 0; k < LENGTH; ++k) {
      const T part = own[k];
      own[k] = sum;
      sum = combine(sum, part);
    }
#pragma unroll
    for (int delta = 1; delta < 32; delta *= 2) {
      const T other = tf::shuffle_along<32, false>(sum, delta);
      if (lane >= delta) sum = combine(other, sum);
    }
    const T left = tf::shuffle_along<32, false>(sum, 1), before = lane ? left : identity;
#pragma unroll
    for (int k = 0; k < LENGTH; ++k)
      if (first + k < COUNT) parts[first + k][column] = combine(before, own[k]);
    if (lane == 31) parts[COUNT][column] = sum;
  }
  __syncthreads();
}

// chunk: scan_runs
// The elements of a row of which each of THREADS, part of a warp, has a run x of neighbours, combined with
// all before them or, in REVERSE, behind them. Every thread of the warp takes part.
template <int THREADS, bool REVERSE, int HELD, int LANES, class T, class Combine>
TF_FN void scan_runs(T (&x)[HELD][LANES], int part, T identity, Combine combine) {
  constexpr int COUNT = HELD * LANES;
  T sum = identity;
#pragma unroll
  for (int step = 0; step < COUNT; ++step) {
    const int place = REVERSE ? COUNT - 1 - step : step;
    T& own = x[place / LANES][place % LANES];
    own = sum = step ? combine(sum, own) : own;
  }
  if constexpr (THREADS > 1) {
    const int ahead = REVERSE ? THREADS - 1 - part : part;  // threads before this one
#pragma unroll
    for (int delta = 1; delta < THREADS; delta *= 2) {
      const T other = tf::shuffle_along<THREADS, REVERSE>(sum, delta);
      if (ahead >= delta) sum = combine(other, sum);
    }
    const T left = tf::shuffle_along<THREADS, REVERSE>(sum, 1), before = ahead ? left : identity;
#pragma unroll
    for (int k = 0; k < HELD; ++k)
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane) x[k][lane] = combine(before, x[k][lane]);
  }
}

// chunk: scan_row
// The elements x[k][lane] of a row, at (k * THREADS + part) * LANES + lane, each combined with all
// before it or, in REVERSE, behind it, and with what was there `so_far`. `sums` has room for a value
// per k and warp of the row. Every thread of the block takes part, and gets what is there now.
template <int THREADS, bool REVERSE, int HELD, int LANES, class T, class Combine>
TF_FN T scan_row(T (&x)[HELD][LANES], T* sums, int part, T identity, T so_far, Combine combine) {
  constexpr int WIDTH = THREADS < 32 ? THREADS : 32, WARPS = THREADS / WIDTH;
  const int warp = part / WIDTH;
  const int ahead = REVERSE ? WIDTH - 1 - part % WIDTH : part % WIDTH;  // threads before this one
  T before[HELD], whole[HELD];
#pragma unroll
  for (int k = 0; k < HELD; ++k) {
#pragma unroll
    for (int step = 1; step < LANES; ++step) {
      const int lane = REVERSE ? LANES - 1 - step : step, last = REVERSE ? lane + 1 : lane - 1;
      x[k][lane] = combine(x[k][last], x[k][lane]);
    }
    T sum = x[k][REVERSE ? 0 : LANES - 1];
#pragma unroll
    for (int delta = 1; delta < WIDTH; delta *= 2) {
      const T other = tf::shuffle_along<WIDTH, REVERSE>(sum, delta);
      if (ahead >= delta) sum = combine(other, sum);
    }
    const T left = tf::shuffle_along<WIDTH, REVERSE>(sum, 1);
    before[k] = ahead ? left : identity;
    whole[k] = __shfl_sync(0xffffffffu, sum, REVERSE ? 0 : WIDTH - 1, WIDTH);
    if (WARPS > 1 && ahead == WIDTH - 1) sums[k * WARPS + warp] = sum;
  }
  if constexpr (WARPS > 1) __syncthreads();
  T carry = so_far;
#pragma unroll
  for (int turn = 0; turn < HELD; ++turn) {
    const int k = REVERSE ? HELD - 1 - turn : turn;
    T offset = carry;
    if constexpr (WARPS > 1) {
      for (int step = 0; step < WARPS; ++step) {
        const int other = REVERSE ? WARPS - 1 - step : step;
        carry = combine(carry, sums[k * WARPS + other]);
        if (REVERSE ? other > warp : other < warp) offset = carry;
      }
    } else {
      carry = combine(carry, whole[k]);
    }
    offset = combine(offset, before[k]);
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) x[k][lane] = combine(offset, x[k][lane]);
  }
  return carry;
}

// chunk: count
// One more where a lane of LANES has that number.
template <int LANES, class T>
TF_FN void count(int* counts, T lane) {
  if (lane >= T(0) && lane < T(LANES)) atomicAdd(counts + int(lane), 1);
}
