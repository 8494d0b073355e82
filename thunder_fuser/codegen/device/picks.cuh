// Sums of the elements of a row that an index of each sends to one place of the row.

// chunk: Terms Exact
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
// Of more each is a whole number of the unit that is 2^-47 of the largest, or less: such are added exactly,
// once all have been seen.
struct Exact {
  static constexpr int BELOW = 24;  // bits below the last one of the largest
  int most = 1;                     // the largest exponent: 255 of infinities and of what is no number
  tf::i64 sum = 0;
  float beyond = 0;
  TF_FN void see(float term) {
    const int exponent = tf::bits(term) >> 23 & 255;
    most = exponent > most ? exponent : most;
  }
  TF_FN void add(float term) {
    const unsigned word = tf::bits(term);
    const int exponent = word >> 23 & 255, down = most - (exponent > 0 ? exponent : 1);
    const tf::i64 digits = (tf::i64)(word & 0x7fffffu | (exponent > 0 ? 0x800000u : 0u)) << BELOW;
    const tf::i64 size = down < 64 ? digits >> down : 0;
    sum += (int)word < 0 ? -size : size;
    if (exponent == 255) beyond += term;
  }
  TF_FN float get() const {
    if (most == 255) return beyond;
    const double unit = tf::from_bits((unsigned long long)(1023 + most - 150 - BELOW) << 52);
    return (float)((double)sum * unit);
  }
};
template <class S>
struct Terms<float, S> {
  static constexpr int FEW = 4;
  TF_FN static void put_in_order(unsigned& a, unsigned& b) {
    const unsigned low = a < b ? a : b;
    b = a < b ? b : a;
    a = low;
  }
  TF_FN static unsigned word(S term) { return tf::bits(tf::convert<float>(term)); }
  TF_FN static float few(const S* terms, int n) {
    unsigned words[FEW];
#pragma unroll
    for (int k = 0; k < FEW; ++k) {
      words[k] = 0;
      if (k < n) words[k] = word(terms[k]);
    }
    return in_order(words);
  }
  TF_FN static float in_order(unsigned (&words)[FEW]) {
    put_in_order(words[0], words[1]), put_in_order(words[2], words[3]);
    put_in_order(words[0], words[2]), put_in_order(words[1], words[3]);
    put_in_order(words[1], words[2]);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < FEW; ++k) sum += tf::from_bits(words[k]);
    return sum;
  }
  template <int LANES>
  TF_FN static float many(const S* terms, int n, int lane) {
    Exact all;
#pragma unroll(LANES > 1 ? 4 : 1)
    for (int k = lane; k < n; k += LANES) all.see(tf::convert<float>(terms[k]));
#pragma unroll
    for (int delta = LANES / 2; delta > 0; delta /= 2) {
      const int other = __shfl_xor_sync(0xffffffffu, all.most, delta);
      all.most = other > all.most ? other : all.most;
    }
#pragma unroll(LANES > 1 ? 4 : 1)
    for (int k = lane; k < n; k += LANES) all.add(tf::convert<float>(terms[k]));
#pragma unroll
    for (int delta = LANES / 2; delta > 0; delta /= 2) {
      all.sum += __shfl_xor_sync(0xffffffffu, all.sum, delta);
      all.beyond += __shfl_xor_sync(0xffffffffu, all.beyond, delta);
    }
    return all.get();
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

// chunk: start_columns TF_RANK
// Where the elements of each column begin, in whatever order columns come there, by the element that was
// counted first:
// columns[c]   how many elements go to column c   =>   where they begin, and from bit TF_RANK on how many
//
// An element knows its column, and from that bit on how many of it were counted before.
#define TF_RANK 16
template <int TURNS, int LANES>
TF_FN void start_columns(const unsigned (&at)[TURNS][LANES], unsigned* columns, unsigned& end) {
  unsigned count[TURNS][LANES], own = 0;
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
      count[turn][lane] = at[turn][lane] >> TF_RANK == 0 ? columns[at[turn][lane]] : 0;
      own += count[turn][lane];
    }
  unsigned through = own, begin = 0;
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    const unsigned other = __shfl_up_sync(0xffffffffu, through, delta);
    if (threadIdx.x % 32 >= delta) through += other;
  }
  if (threadIdx.x % 32 == 31) begin = atomicAdd(&end, through);
  begin = __shfl_sync(0xffffffffu, begin, 31) + through - own;
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
      if (at[turn][lane] >> TF_RANK == 0) columns[at[turn][lane]] = begin | count[turn][lane] << TF_RANK;
      begin += count[turn][lane];
    }
}

// chunk: add_listed ALONE
// The sums of listed columns, which have more than few terms, left in the place of these: by a thread, or
// of more than ALONE by a warp.
constexpr int ALONE = 32;
template <class T, int THREADS, class S>
TF_FN void add_listed(S* terms, const unsigned* columns, const unsigned short* listed, int size) {
  for (int k = threadIdx.x; k < size; k += THREADS) {
    const unsigned column = columns[listed[k]], n = column >> TF_RANK;
    S* const from = terms + (column & 0xffffu);
    if (n <= ALONE) tf::Left<T, S>(tf::Terms<T, S>::template many<1>(from, n, 0)).put(from);
  }
  for (int k = threadIdx.x / 32; k < size; k += THREADS / 32) {
    const unsigned column = columns[listed[k]], n = column >> TF_RANK;
    S* const from = terms + (column & 0xffffu);
    if (n <= ALONE) continue;
    const T sum = tf::Terms<T, S>::template many<32>(from, n, threadIdx.x % 32);
    __syncwarp();  // all lanes have read what the first one overwrites
    if (threadIdx.x % 32 == 0) tf::Left<T, S>(sum).put(from);
  }
}

// chunk: add_columns
// The sums of neighbouring columns by one thread, of which those of listed columns are known.
template <class T, int ACROSS, class S>
TF_FN void add_columns(const S* terms, const unsigned* columns, T (&sum)[ACROSS]) {
  constexpr int FEW = tf::Terms<T, S>::FEW;
  const auto own = tf::load<unsigned, ACROSS, ACROSS % 4 == 0 ? 16 : 4>(columns);
  unsigned any = 0;
#pragma unroll
  for (int lane = 0; lane < ACROSS; ++lane) any |= own.v[lane], sum[lane] = 0;
  if (any == 0) return;  // as most do where rows have few elements
#pragma unroll
  for (int lane = 0; lane < ACROSS; ++lane) {
    const S* const from = terms + (own.v[lane] & 0xffffu);
    const int n = own.v[lane] >> TF_RANK;
    sum[lane] = tf::Terms<T, S>::few(from, n > FEW ? 0 : n);
    if (n > FEW) sum[lane] = tf::Left<T, S>(from).value;
  }
}

// chunk: Slots
// Room for FEW terms of each column, zeros at first, where the ACROSS columns of a thread have neighbouring
// UNITS that it reads at once. Their order there differs from thread to thread, so that threads side by
// side meet in no bank.
template <class T, class S, int ACROSS>
struct Slots {
  static constexpr int FEW = tf::Terms<T, S>::FEW, BYTES = FEW * sizeof(S);
  static constexpr int UNIT = ACROSS * BYTES < 16 ? ACROSS * BYTES : 16;
  static constexpr int UNITS = ACROSS * BYTES / UNIT, COLUMNS = UNIT / BYTES;
  S* slots;
  TF_FN static int turned(int unit) { return unit ^ (unit >> 3 & (UNITS - 1)); }
  TF_FN S* of(int column) const {
    return slots + (turned(column / COLUMNS) * COLUMNS + column % COLUMNS) * FEW;
  }
  template <int THREADS>
  TF_FN void clear(int columns) const {
    tf::Vec<unsigned, 4>* const fours = reinterpret_cast<tf::Vec<unsigned, 4>*>(slots);
    for (int k = threadIdx.x; k < (columns * BYTES + 15) / 16; k += THREADS)
      fours[k] = tf::Vec<unsigned, 4>{{0, 0, 0, 0}};
  }
  // The sums of a thread's columns.
  TF_FN void add(int vector, T (&sum)[ACROSS]) const {
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
      const auto terms = tf::load<S, COLUMNS * FEW, UNIT>(of((vector * UNITS + unit) * COLUMNS));
#pragma unroll
      for (int column = 0; column < COLUMNS; ++column) {
        unsigned words[FEW];
#pragma unroll
        for (int k = 0; k < FEW; ++k) words[k] = tf::Terms<T, S>::word(terms.v[column * FEW + k]);
        sum[unit * COLUMNS + column] = tf::Terms<T, S>::in_order(words);
      }
    }
  }
};

// chunk: Extra
// The few terms of a block for which its slots have no room. A thread finds those of a column, and leaves
// the sum of all in its first slot, and zeros in others.
template <class T, class S>
struct Extra {
  static constexpr int SIZE = 124, FEW = tf::Terms<T, S>::FEW, BATCH = 32;
  unsigned short column[SIZE];
  bool is_first[SIZE];
  S term[SIZE];
  TF_FN void put(int& found, int to, bool first, S value) {
    const int at = atomicAdd(&found, 1);
    if (at < SIZE) column[at] = (unsigned short)to, is_first[at] = first, term[at] = value;
  }
  template <class Take>
  TF_FN void each(int found, int own, const Take& take) const {
    for (int first = 0; first < found; first += BATCH) {
      unsigned hits = 0;
#pragma unroll 4
      for (int k = 0; k < BATCH && first + k < found; ++k) hits |= (unsigned)(column[first + k] == own) << k;
      for (; hits; hits &= hits - 1) take(tf::convert<T>(term[first + __ffs(hits) - 1]));
    }
  }
  template <int THREADS, int ACROSS>
  TF_FN void add(int found, const tf::Slots<T, S, ACROSS>& slots) const {
    for (int at = threadIdx.x; at < found; at += THREADS) {
      if (!is_first[at]) continue;
      S* const own = slots.of(column[at]);
      tf::Exact all;
#pragma unroll
      for (int k = 0; k < FEW; ++k) all.see(tf::convert<T>(own[k]));
      each(found, column[at], [&](T x) { all.see(x); });
#pragma unroll
      for (int k = 0; k < FEW; ++k) all.add(tf::convert<T>(own[k]));
      each(found, column[at], [&](T x) { all.add(x); });
#pragma unroll
      for (int k = 0; k < FEW; ++k) own[k] = tf::convert<S>(k == 0 ? all.get() : T(0));
    }
  }
};

// chunk: list_columns
// Columns of more than few elements, each once, by the element that is the first too many of its own.
template <int FEW, int TURNS, int LANES>
TF_FN void list_columns(const unsigned (&at)[TURNS][LANES], int turn, unsigned short* listed, int& found) {
  bool is_more = false;
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) is_more |= at[turn][lane] >> TF_RANK == FEW;
  if (is_more)
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane)
      if (at[turn][lane] >> TF_RANK == FEW) listed[atomicAdd(&found, 1)] = (unsigned short)at[turn][lane];
}

// chunk: sum_picks
// Of each column of ROWS rows the sum of the elements that go there. A block counts them, column by
// column, and puts those of each side by side in shared memory, in any order; a thread
// adds those of its columns. Columns of more than few elements are listed, and added before.
// Where HAS_SLOTS, elements are put in slots of their column as they are counted; only if there are too
// many extra ones, they are put as above.
//
//     load(row, vector, column, value)   LANES elements of a row: where each goes, and what it is
//     finish(row, vector, sum)           takes the sums of ACROSS columns
template <class T, class S, int THREADS, int ROWS, int TURNS, int LANES, int ACROSS, bool HAS_SLOTS,
          class Load, class Finish>
TF_FN void sum_picks(int rows, int vectors, int columns, const Load& load, const Finish& finish) {
  constexpr int FEW = tf::Terms<T, S>::FEW;
  TF_DYNAMIC_SHARED(unsigned, counts);
  __shared__ int extras, found;
  __shared__ unsigned end;
  const int fours = (ROWS * columns + 3) / 4, most = ROWS * vectors * LANES / (FEW + 1);
  tf::Vec<unsigned, 4>* const four = reinterpret_cast<tf::Vec<unsigned, 4>*>(counts);
  unsigned short* const listed = reinterpret_cast<unsigned short*>(four + fours);
  S* const terms = reinterpret_cast<S*>(listed + (most + 7) / 8 * 8);
  const int first = blockIdx.x * ROWS, own = rows - first < ROWS ? rows - first : ROWS;
  const int across = columns / ACROSS;
  for (int k = threadIdx.x; k < fours; k += THREADS) four[k] = tf::Vec<unsigned, 4>{{0, 0, 0, 0}};
  if constexpr (HAS_SLOTS)
    tf::Slots<T, S, ACROSS>{reinterpret_cast<S*>(listed)}.template clear<THREADS>(ROWS * columns);
  if (threadIdx.x == 0) extras = found = 0, end = 0;
  unsigned at[TURNS][LANES];
  S held[TURNS][LANES];
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int vector = turn * THREADS + threadIdx.x;
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) at[turn][lane] = ~0u;  // no element is the first of a column
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
    if (turn * THREADS + threadIdx.x < own * vectors)
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane)
        at[turn][lane] |= atomicAdd(&counts[at[turn][lane]], 1u) << TF_RANK;
  if constexpr (HAS_SLOTS) {
    __shared__ tf::Extra<T, S> extra;
    const tf::Slots<T, S, ACROSS> slots{reinterpret_cast<S*>(listed)};
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
      if (turn * THREADS + threadIdx.x < own * vectors)
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
          const int column = at[turn][lane] & 0xffffu, rank = at[turn][lane] >> TF_RANK;
          if (rank < FEW)
            slots.of(column)[rank] = held[turn][lane];
          else
            extra.put(extras, column, rank == FEW, held[turn][lane]);
        }
    __syncthreads();
    if (extras <= extra.SIZE) {
      if (extras > 0) {
        extra.template add<THREADS>(extras, slots);
        __syncthreads();
      }
      for (int vector = threadIdx.x; vector < own * across; vector += THREADS) {
        T sum[ACROSS];
        slots.add(vector, sum);
        finish(first + vector / across, vector % across, sum);
      }
      return;
    }
  }
  __syncthreads();
  tf::start_columns(at, counts, end);
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
    if (turn * THREADS + threadIdx.x < own * vectors) {
      int to[LANES];  // all of them, before anything is written
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane)
        to[lane] = (counts[at[turn][lane] & 0xffffu] & 0xffffu) + (at[turn][lane] >> TF_RANK);
#pragma unroll
      for (int lane = 0; lane < LANES; ++lane) terms[to[lane]] = held[turn][lane];
      tf::list_columns<FEW>(at, turn, listed, found);
    }
  __syncthreads();
  if (found > 0) {
    tf::add_listed<T, THREADS>(terms, counts, listed, found);
    __syncthreads();
  }
  for (int vector = threadIdx.x; vector < own * across; vector += THREADS) {
    T sum[ACROSS];
    tf::add_columns<T>(terms, counts + vector * ACROSS, sum);
    finish(first + vector / across, vector % across, sum);
  }
}
