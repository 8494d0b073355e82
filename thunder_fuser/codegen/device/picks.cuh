// Sums of the elements of a row that an index of each sends to one place of the row.

// chunk: Terms
// Sums of terms of memory type S in T, which are the same in whatever order they lie. Whole numbers wrap.
template <class T, class S>
struct Terms {
  static constexpr int FEW = 0;
  TF_FN static T few(const S*, int) { return 0; }
  template <int LANES>
  TF_FN static T many(const S* terms, int n, int lane) {
    T sum = 0;
#pragma unroll(LANES > 1 ? 4 : 1)
    for (int k = lane; k < n; k += LANES) sum += terms[k];
#pragma unroll
    for (int delta = LANES / 2; delta > 0; delta /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, delta);
    return sum;
  }
};
// Up to FEW floats are added in the order of their bits, after zeros in place of those that are not there.
// Of more each is a whole number of the unit that is 2^-47 of the largest, or less: such are added exactly.
template <int BYTES>
struct Bits;
template <>
struct Bits<2> {
  using Word = unsigned short;
};
template <>
struct Bits<4> {
  using Word = unsigned;
};
template <class S>
struct Terms<float, S> {
  static constexpr int FEW = 4, BELOW = 24;  // bits below the last one of the largest
  using Word = typename Bits<sizeof(S)>::Word;
  union Term {
    Word bits;
    S value;
    TF_FN Term() {}
  };
  TF_FN static void put_in_order(unsigned& a, unsigned& b) {
    const unsigned low = a < b ? a : b;
    b = a < b ? b : a;
    a = low;
  }
  TF_FN static float few(const S* terms, int n) {
    unsigned word[FEW];
    Term term;
#pragma unroll
    for (int k = 0; k < FEW; ++k) {
      word[k] = 0;
      if (k < n) term.value = terms[k], word[k] = term.bits;
    }
    put_in_order(word[0], word[1]), put_in_order(word[2], word[3]);
    put_in_order(word[0], word[2]), put_in_order(word[1], word[3]);
    put_in_order(word[1], word[2]);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < FEW; ++k) {
      term.bits = (Word)word[k];
      sum += tf::convert<float>(term.value);
    }
    return sum;
  }
  template <int LANES>
  TF_FN static float many(const S* terms, int n, int lane) {
    int most = 1;  // the largest exponent: 255 of infinities and of what is no number
#pragma unroll(LANES > 1 ? 4 : 1)
    for (int k = lane; k < n; k += LANES) {
      const int exponent = tf::bits(tf::convert<float>(terms[k])) >> 23 & 255;
      most = exponent > most ? exponent : most;
    }
#pragma unroll
    for (int delta = LANES / 2; delta > 0; delta /= 2) {
      const int other = __shfl_xor_sync(0xffffffffu, most, delta);
      most = other > most ? other : most;
    }
    tf::i64 sum = 0;
    float beyond = 0;
#pragma unroll(LANES > 1 ? 4 : 1)
    for (int k = lane; k < n; k += LANES) {
      const float term = tf::convert<float>(terms[k]);
      const unsigned word = tf::bits(term);
      const int exponent = word >> 23 & 255, down = most - (exponent > 0 ? exponent : 1);
      const tf::i64 digits = (tf::i64)(word & 0x7fffffu | (exponent > 0 ? 0x800000u : 0u)) << BELOW;
      const tf::i64 size = down < 64 ? digits >> down : 0;
      sum += (int)word < 0 ? -size : size;
      if (exponent == 255) beyond += term;
    }
#pragma unroll
    for (int delta = LANES / 2; delta > 0; delta /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, delta);
      beyond += __shfl_xor_sync(0xffffffffu, beyond, delta);
    }
    if (most == 255) return beyond;
    const double unit = tf::from_bits((unsigned long long)(1023 + most - 150 - BELOW) << 52);
    return (float)((double)sum * unit);
  }
};

// chunk: Left
// A sum in the place of the terms that it was made of, each of which may be a part of one.
template <class T, class S>
union Left {
  static constexpr int PARTS = sizeof(T) / sizeof(S);
  T value;
  S parts[PARTS];
  TF_FN Left() {}
  TF_FN Left(T sum) : value(sum) {}
  TF_FN Left(const S* from) {
#pragma unroll
    for (int k = 0; k < PARTS; ++k) parts[k] = from[k];
  }
  TF_FN void put(S* to) const {
#pragma unroll
    for (int k = 0; k < PARTS; ++k) to[k] = parts[k];
  }
};

// chunk: start_columns
// counts[c]   how many of the block's elements go to column c   =>   how many go to those before
//
// Of so many vectors of four columns; behind them comes the number of all elements.
template <int THREADS>
TF_FN void start_columns(tf::Vec<int, 4>* counts, int vectors) {
  constexpr int WARPS = THREADS / 32;
  __shared__ int sums[WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int each = (vectors + THREADS - 1) / THREADS, first = threadIdx.x * each;
  int own = 0;
  for (int k = first; k < first + each && k < vectors; ++k) {
    const tf::Vec<int, 4> four = counts[k];
    own += four.v[0] + four.v[1] + four.v[2] + four.v[3];
  }
  int through = own;
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, through, delta);
    if (lane >= delta) through += other;
  }
  if (lane == 31) sums[warp] = through;
  __syncthreads();
  int before = lane < warp ? sums[lane] : 0;
#pragma unroll
  for (int delta = 16; delta > 0; delta /= 2) before += __shfl_xor_sync(0xffffffffu, before, delta);
  int start = before + through - own;
  for (int k = first; k < first + each && k < vectors; ++k) {
    tf::Vec<int, 4> four = counts[k];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int count = four.v[j];
      four.v[j] = start;
      start += count;
    }
    counts[k] = four;
  }
  if (threadIdx.x == THREADS - 1) counts[vectors].v[0] = start;
}

// chunk: add_listed ALONE
// The sums of listed columns, which have more than few terms, left in the place of these: by a thread, or
// of more than ALONE by a warp. Column c has its terms from starts[c] to before starts[c + 1].
constexpr int ALONE = 32;
template <class T, int THREADS, class S>
TF_FN void add_listed(S* terms, const int* starts, const unsigned short* listed, int size) {
  const int lane = threadIdx.x % 32;
  for (int k = threadIdx.x; k < size; k += THREADS) {
    S* const from = terms + starts[listed[k]];
    const int n = starts[listed[k] + 1] - starts[listed[k]];
    if (n <= ALONE) tf::Left<T, S>(tf::Terms<T, S>::template many<1>(from, n, 0)).put(from);
  }
  for (int k = threadIdx.x / 32; k < size; k += THREADS / 32) {
    S* const from = terms + starts[listed[k]];
    const int n = starts[listed[k] + 1] - starts[listed[k]];
    if (n <= ALONE) continue;
    const T sum = tf::Terms<T, S>::template many<32>(from, n, lane);
    if (lane == 0) tf::Left<T, S>(sum).put(from);
  }
}

// chunk: add_columns
// The sums of neighbouring columns by one thread, of which those of listed columns are known.
template <class T, int ACROSS, class S>
TF_FN void add_columns(const S* terms, const int* starts, T (&sum)[ACROSS]) {
  constexpr int FEW = tf::Terms<T, S>::FEW;
  const auto own = tf::load<int, ACROSS, ACROSS % 4 == 0 ? 16 : 4>(starts);
  int start[ACROSS + 1];
#pragma unroll
  for (int lane = 0; lane < ACROSS; ++lane) start[lane] = own.v[lane], sum[lane] = 0;
  start[ACROSS] = starts[ACROSS];
  if (start[0] == start[ACROSS]) return;  // as most do where rows have few elements
#pragma unroll
  for (int lane = 0; lane < ACROSS; ++lane) {
    const S* const from = terms + start[lane];
    const int n = start[lane + 1] - start[lane];
    sum[lane] = tf::Terms<T, S>::few(from, n > FEW ? 0 : n);
    if (n > FEW) sum[lane] = tf::Left<T, S>(from).value;
  }
}

// chunk: sum_picks
// Of each column of ROWS rows the sum of the elements that go there. A block counts them, column by
// column, and so knows where to put those of each side by side in shared memory, in any order; a thread
// adds those of its columns. Columns of more than few elements are listed, and added before.
//
//     load(row, vector, column, value)   LANES elements of a row: where each goes, and what it is
//     finish(row, vector, sum)           takes the sums of ACROSS columns
template <class T, class S, int THREADS, int ROWS, int TURNS, int LANES, int ACROSS, class Load,
          class Finish>
TF_FN void sum_picks(int rows, int vectors, int columns, const Load& load, const Finish& finish) {
  constexpr int FEW = tf::Terms<T, S>::FEW;
  constexpr int RANK = 16;  // the first bit of how many come before
  TF_DYNAMIC_SHARED(int, starts);
  __shared__ int found;
  const int all = ROWS * columns, fours = (all + 3) / 4, most = ROWS * vectors * LANES / (FEW + 1);
  tf::Vec<int, 4>* const counts = reinterpret_cast<tf::Vec<int, 4>*>(starts);
  unsigned short* const listed = reinterpret_cast<unsigned short*>(counts + fours + 1);
  S* const terms = reinterpret_cast<S*>(listed + (most + 7) / 8 * 8);
  const int first = blockIdx.x * ROWS, own = rows - first < ROWS ? rows - first : ROWS;
  for (int k = threadIdx.x; k < fours; k += THREADS) counts[k] = tf::Vec<int, 4>{{0, 0, 0, 0}};
  if (threadIdx.x == 0) found = 0;
  unsigned at[TURNS][LANES];
  S held[TURNS][LANES];
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int vector = turn * THREADS + threadIdx.x;
    if (vector < own * vectors) {
      int column[LANES];
      T value[LANES];
      load(first + vector / vectors, vector % vectors, column, value);
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane) {
        at[turn][lane] = vector / vectors * columns + column[lane];
        held[turn][lane] = tf::convert<S>(value[lane]);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
    if (turn * THREADS + threadIdx.x < own * vectors) {
      bool is_more = false;
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane) {
        const unsigned rank = atomicAdd(&starts[at[turn][lane]], 1);
        at[turn][lane] |= rank << RANK;
        is_more |= rank == FEW;
      }
      if (is_more)
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane)
          if (at[turn][lane] >> RANK == FEW)
            listed[atomicAdd(&found, 1)] = (unsigned short)at[turn][lane];
    }
  __syncthreads();
  tf::start_columns<THREADS>(counts, fours);
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
    if (turn * THREADS + threadIdx.x < own * vectors) {
      int to[LANES];  // all of them, before anything is written
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane)
        to[lane] = starts[at[turn][lane] & ((1u << RANK) - 1)] + (at[turn][lane] >> RANK);
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane) terms[to[lane]] = held[turn][lane];
    }
  __syncthreads();
  if (found > 0) {
    tf::add_listed<T, THREADS>(terms, starts, listed, found);
    __syncthreads();
  }
  const int across = columns / ACROSS;
  for (int vector = threadIdx.x; vector < own * across; vector += THREADS) {
    T sum[ACROSS];
    tf::add_columns<T>(terms, starts + vector * ACROSS, sum);
    finish(first + vector / across, vector % across, sum);
  }
}
