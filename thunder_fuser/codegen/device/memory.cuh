// Vectors of elements and their loads and stores in accesses of a chosen width.

// chunk: Vec
constexpr int vec_alignment(int bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}
template <class T, int N>
struct alignas(vec_alignment(sizeof(T) * N) > int(alignof(T)) ? vec_alignment(sizeof(T) * N)
                                                              : int(alignof(T))) Vec {
  T v[N];
};

// chunk: TF_DYNAMIC_SHARED TF_SHARED_LINES
// TF_DYNAMIC_SHARED(float, tile): the shared memory sized at launch, which host.h allocates. TF_SHARED_LINES
// is the same, from a whole line on: stretches of 75 KB that came elsewhere took a fifth longer.
#ifdef TF_HOST
#define TF_DYNAMIC_SHARED(type, name)                                            \
  type* const name = reinterpret_cast<type*>(tf_host::dynamic_shared)
#define TF_SHARED_LINES(type, name) TF_DYNAMIC_SHARED(type, name)
#else
#define TF_DYNAMIC_SHARED(type, name)                                            \
  extern __shared__ uint4 dynamic_shared[];                                      \
  type* const name = reinterpret_cast<type*>(dynamic_shared)
#define TF_SHARED_LINES(type, name)                                              \
  extern __shared__ __align__(128) uint4 dynamic_shared[];                       \
  type* const name = reinterpret_cast<type*>(dynamic_shared)
#endif

// chunk: Access TF_ACCESS
// One register of BYTES bytes, and its moves to and from memory.
template <int BYTES>
struct Access;
#ifdef TF_HOST
#define TF_ACCESS(bytes, type)                                                   \
  template <>                                                                    \
  struct Access<bytes> {                                                         \
    struct Word {                                                                \
      unsigned char v[bytes];                                                    \
    };                                                                           \
    TF_FN static Word load(const Word* p) { return *p; }                         \
    TF_FN static Word load_streaming(const Word* p) { return *p; }               \
    TF_FN static void store(Word* p, Word w) { *p = w; }                         \
    TF_FN static void store_streaming(Word* p, Word w) { *p = w; }               \
  };
#else
#define TF_ACCESS(bytes, type)                                                   \
  template <>                                                                    \
  struct Access<bytes> {                                                         \
    using Word = type;                                                           \
    TF_FN static Word load(const Word* p) { return *p; }                         \
    TF_FN static Word load_streaming(const Word* p) { return __ldcs(p); }        \
    TF_FN static void store(Word* p, Word w) { *p = w; }                         \
    TF_FN static void store_streaming(Word* p, Word w) { __stcs(p, w); }         \
  };
#endif
TF_ACCESS(1, unsigned char)
TF_ACCESS(2, unsigned short)
TF_ACCESS(4, unsigned)
TF_ACCESS(8, uint2)
TF_ACCESS(16, uint4)
#undef TF_ACCESS
// The words of a vector; a union, so that both faces stay in registers.
template <class T, int N, int BYTES>
union Words {
  static_assert(sizeof(T) * N % BYTES == 0, "a vector is a whole number of accesses");
  static constexpr int count = sizeof(T) * N / BYTES;
  typename Access<BYTES>::Word words[count];
  tf::Vec<T, N> vec;
  TF_FN Words() {}
};

// chunk: load
template <class T, int N, int ACCESS_BYTES>
TF_FN tf::Vec<T, N> load(const T* p) {
  using Access = tf::Access<ACCESS_BYTES>;
  Words<T, N, ACCESS_BYTES> out;
#pragma unroll
  for (int k = 0; k < out.count; ++k)
    out.words[k] = Access::load(reinterpret_cast<const typename Access::Word*>(p) + k);
  return out.vec;
}

// chunk: load_if
// A vector, or zeros where `is_used` does not hold and nothing is read. They are words too: of 16-bit
// elements that are zero each would be put together in two instructions more.
template <class T, int N, int ACCESS_BYTES>
TF_FN tf::Vec<T, N> load_if(bool is_used, const T* p) {
  using Access = tf::Access<ACCESS_BYTES>;
  Words<T, N, ACCESS_BYTES> out;
#pragma unroll
  for (int k = 0; k < out.count; ++k) out.words[k] = {};
  if (is_used) {
#pragma unroll
    for (int k = 0; k < out.count; ++k)
      out.words[k] = Access::load(reinterpret_cast<const typename Access::Word*>(p) + k);
  }
  return out.vec;
}

// chunk: load_lanes
// Elements that lie apart, or so many bytes of several side by side, those from lane k on at `place(k)`.
template <int N, int ACCESS_BYTES, class T, class Place>
TF_FN tf::Vec<T, N> load_lanes(const T* p, Place place) {
  constexpr int part = ACCESS_BYTES / sizeof(T);
  tf::Vec<T, N> x;
#pragma unroll
  for (int k = 0; k < N; k += part) {
    const auto read = tf::load<T, part, ACCESS_BYTES>(p + place(k));
#pragma unroll
    for (int j = 0; j < part; ++j) x.v[k + j] = read.v[j];
  }
  return x;
}

// chunk: not_negative
template <class Place>
TF_FN void not_negative(Place place) {
#ifndef TF_HOST
  __builtin_assume(place >= 0);
#endif
}

// chunk: settled
// A number of which the compiler knows nothing, so that it is computed where it stands.
TF_FN int settled(int place) {
#ifndef TF_HOST
  asm("" : "+r"(place));
#endif
  return place;
}
TF_FN long long settled(long long place) { return place; }

// chunk: settled_address
// The same of an address, so that what is added to it is added last. It may be one of shared memory then,
// for all that a load knows.
template <class T>
TF_FN const T* settled_address(const T* p) {
#ifndef TF_HOST
  asm("" : "+l"(p));
#endif
  return p;
}

// chunk: load_lanes_if
// The same of lanes that use theirs; others get any element. Neither the offset nor the load may be
// put behind a branch, where loads would wait for each other: so `kept` hides what they depend on.
TF_FN unsigned kept(unsigned offset) {
#ifndef TF_HOST
  asm("" : "+r"(offset));
#endif
  return offset;
}
TF_FN unsigned kept(int offset) { return kept(unsigned(offset)); }
TF_FN long long kept(long long offset) { return offset; }
template <int N, int ACCESS_BYTES, class T, class Test, class Place>
TF_FN tf::Vec<T, N> load_lanes_if(const T* p, Test is_used, Place place) {
  return tf::load_lanes<N, ACCESS_BYTES>(p, [&](int k) {
    const auto offset = kept(place(k));
    return kept(is_used(k) ? offset : 0);
  });
}

// chunk: beside
// A vector with single elements that lie next to it, of which so many are before it.
template <int BEFORE, class T, int N, class... Single>
TF_FN tf::Vec<T, N + int(sizeof...(Single))> beside(const tf::Vec<T, N>& x, const Single&... single) {
  constexpr int count = sizeof...(Single);
  const T singles[] = {single.v[0]...};
  tf::Vec<T, N + count> all;
#pragma unroll
  for (int k = 0; k < N + count; ++k)
    all.v[k] = k < BEFORE ? singles[k] : k < BEFORE + N ? x.v[k - BEFORE] : singles[k - N];
  return all;
}

// chunk: load_carried
// An element for the first lanes, so many, and another one for those that are left.
template <int N, class T, class Left>
TF_FN tf::Vec<T, N> load_carried(const T* first, const T* next, Left left) {
  const T own = *first, other = left < N ? *next : own;
  tf::Vec<T, N> x;
#pragma unroll
  for (int k = 0; k < N; ++k) x.v[k] = k < left ? own : other;
  return x;
}

// chunk: load_first
// A vector of which the first elements are loaded, if they are used.
template <int N, int COUNT, class T>
TF_FN tf::Vec<T, N> load_first(const T* p, bool is_used = true) {
  tf::Vec<T, N> x = {};
#pragma unroll
  for (int k = 0; k < COUNT; ++k)
    if (is_used) x.v[k] = p[k];
  return x;
}

// chunk: load_streaming
template <class T, int N, int ACCESS_BYTES>
TF_FN tf::Vec<T, N> load_streaming(const T* p) {
  using Access = tf::Access<ACCESS_BYTES>;
  Words<T, N, ACCESS_BYTES> out;
#pragma unroll
  for (int k = 0; k < out.count; ++k)
    out.words[k] = Access::load_streaming(reinterpret_cast<const typename Access::Word*>(p) + k);
  return out.vec;
}

// chunk: store
template <int ACCESS_BYTES, class T, int N>
TF_FN void store(T* p, const tf::Vec<T, N>& x) {
  using Access = tf::Access<ACCESS_BYTES>;
  Words<T, N, ACCESS_BYTES> in;
  in.vec = x;
#pragma unroll
  for (int k = 0; k < in.count; ++k)
    Access::store(reinterpret_cast<typename Access::Word*>(p) + k, in.words[k]);
}

// chunk: store_streaming
template <int ACCESS_BYTES, class T, int N>
TF_FN void store_streaming(T* p, const tf::Vec<T, N>& x) {
  using Access = tf::Access<ACCESS_BYTES>;
  Words<T, N, ACCESS_BYTES> in;
  in.vec = x;
#pragma unroll
  for (int k = 0; k < in.count; ++k)
    Access::store_streaming(reinterpret_cast<typename Access::Word*>(p) + k, in.words[k]);
}

// chunk: store_hinted
// Past the cache, where nobody will find it there. The hint is a constant in kernels of one size.
template <int ACCESS_BYTES, class T, int N>
TF_FN void store_hinted(T* p, const tf::Vec<T, N>& x, int is_streaming) {
  if (is_streaming)
    tf::store_streaming<ACCESS_BYTES>(p, x);
  else
    tf::store<ACCESS_BYTES>(p, x);
}

// chunk: Yes No
// Answers that the compiler knows.
struct Yes {
  TF_FN constexpr operator bool() const { return true; }
};
struct No {
  TF_FN constexpr operator bool() const { return false; }
};

// chunk: within
// True for a place in [0, extent), by one comparison.
template <class Place, class Extent>
TF_FN bool within(Place place, Extent extent) {
  if constexpr (sizeof(Place) + sizeof(Extent) > 2 * sizeof(int))
    return static_cast<unsigned long long>(place) < static_cast<unsigned long long>(extent);
  else
    return static_cast<unsigned>(place) < static_cast<unsigned>(extent);
}

// chunk: Endless
// An extent that no place reaches.
struct Endless {};
template <class Place>
TF_FN constexpr bool operator<(Place, Endless) {
  return true;
}

// chunk: joined
// The vector of elements that begins so many bytes, less than a `STEP`, behind the first of some words.
#ifndef TF_HOST
template <class T, int N>
union Across {
  unsigned words[sizeof(T) * N / 4];
  tf::Vec<T, N> vec;
  TF_FN Across() {}
};
template <class T, int N, int STEP>
TF_FN tf::Vec<T, N> joined(unsigned* word, unsigned skipped) {
  constexpr int count = sizeof(T) * N / 4;
  if (STEP == 16) {
#pragma unroll
    for (int k = 0; k < count + 2; ++k) word[k] = skipped & 8 ? word[k + 2] : word[k];
  }
  if (STEP > 4) {
#pragma unroll
    for (int k = 0; k < count + (sizeof(T) < 4); ++k) word[k] = skipped & 4 ? word[k + 1] : word[k];
  }
  Across<T, N> out;
#pragma unroll
  for (int k = 0; k < count; ++k)
    out.words[k] = sizeof(T) < 4 ? __funnelshift_r(word[k], word[k + 1], skipped % 4 * 8) : word[k];
  return out.vec;
}
#endif

// chunk: load_across
// A vector that is aligned to its elements only: each word is put together of two. Words that end before
// place 0 or begin at place `extent` are not read, and some are that begin up to one access behind the
// vector. What no thread of the kernel writes is constant: only that is loaded ahead of a store that
// stands before it.
#ifndef TF_HOST
template <class T, int N, bool IS_CONSTANT = false, class First, class Extent = tf::Endless>
TF_FN tf::Vec<T, N> load_across(const T* p, First first, Extent extent = {}) {
  constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16, count = bytes / 4;
  using Access = tf::Access<step>;
  const unsigned skipped = reinterpret_cast<unsigned long long>(p) % step;
  const char* const from = reinterpret_cast<const char*>(p) - skipped;
  const First start = first - First(skipped / sizeof(T));
  Words<unsigned, count + step / 4, step> read;
#pragma unroll
  for (int k = 0; k < read.count; ++k) {
    constexpr int held = step / sizeof(T);
    read.words[k] = typename Access::Word{};
    const auto word = reinterpret_cast<const typename Access::Word*>(from) + k;
    if (start + (k + 1) * held > 0 && start + k * held < extent)
      read.words[k] = IS_CONSTANT ? __ldg(word) : Access::load(word);
  }
  return tf::joined<T, N, step>(read.vec.v, skipped);
}
#endif

// chunk: load_elements join
// Those elements of a vector whose places, from `first` on, are in [0, extent), beside zeros; put together
// as words, as a whole vector is loaded. Where either may be taken, one that came in elements would have
// the other waited for and taken apart at once.
#ifndef TF_HOST
TF_FN void join(unsigned& to, const unsigned* w) { to = w[0]; }
TF_FN void join(uint2& to, const unsigned* w) { to = make_uint2(w[0], w[1]); }
TF_FN void join(uint4& to, const unsigned* w) { to = make_uint4(w[0], w[1], w[2], w[3]); }
template <class T, int N, int ACCESS_BYTES, class First, class Extent>
TF_FN tf::Vec<T, N> load_elements(const T* p, First first, Extent extent) {
  constexpr int size = sizeof(T) < 4 ? sizeof(T) : 4, bytes = sizeof(T) * N;
  using Part = typename tf::Access<size>::Word;
  unsigned words[bytes / 4] = {};
#pragma unroll
  for (int k = 0; k < bytes; k += size)
    if (tf::within(first + k / int(sizeof(T)), extent))
      words[k / 4] |= unsigned(reinterpret_cast<const Part*>(p)[k / size]) << k % 4 * 8;
  Words<T, N, ACCESS_BYTES> out;
#pragma unroll
  for (int k = 0; k < out.count; ++k) tf::join(out.words[k], words + k * ACCESS_BYTES / 4);
  return out.vec;
}
#endif

// chunk: load_within
// A vector whose first element has place `first`, of which those in the places [0, extent) are elements
// of a tensor; the others have any value. A GPU reads aligned words, with what is in them before the
// first place; where words reach behind the last one, element by element. A constant may tell that none
// does: vectors with a branch around their loads wait for each other.
template <
    class T, int N, int ACCESS_BYTES, bool IS_CONSTANT = false, class First, class Extent, class IsWhole>
TF_FN tf::Vec<T, N> load_within(const T* p, First first, Extent extent, IsWhole is_whole) {
#ifndef TF_HOST
  constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
  if constexpr (bytes % 4 == 0) {
    constexpr int reach = ACCESS_BYTES == step ? N : N + step / int(sizeof(T));
    if (!is_whole && first + reach > extent) return tf::load_elements<T, N, step>(p, first, extent);
    if constexpr (ACCESS_BYTES == step) return tf::load<T, N, step>(p);
    return tf::load_across<T, N, IS_CONSTANT>(p, first);
  }
#endif
  tf::Vec<T, N> x = {};
#ifdef TF_HOST
  __builtin_memset(&x, sizeof(T) == 1 ? 1 : 0xff, sizeof(x));  // what uses such a value shall not be missed
#endif
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (tf::within(first + k, extent)) x.v[k] = p[k];
  return x;
}

// chunk: load_inside
// The same of a vector of which a constant may tell that it and the one behind it lie inside. Such a one is
// put together of words of 8 bytes, which nothing asks for: one more to load, and half as many to choose.
// Of 32 bytes, of f32, that would be five loads for three, each of as many lines of the cache.
template <
    class T, int N, int ACCESS_BYTES, bool IS_CONSTANT = false, class First, class Extent, class IsInner>
TF_FN tf::Vec<T, N> load_inside(const T* p, First first, Extent extent, IsInner is_inner) {
#ifndef TF_HOST
  constexpr int bytes = sizeof(T) * N, step = bytes < 8 ? bytes : 8;
  if constexpr (bytes % 4 == 0 && bytes <= 16 && ACCESS_BYTES < step) {
    if (is_inner) {
      using Access = tf::Access<step>;
      const unsigned skipped = reinterpret_cast<unsigned long long>(p) % step;
      const auto from = reinterpret_cast<const typename Access::Word*>(
          reinterpret_cast<const char*>(p) - skipped);
      Words<unsigned, bytes / 4 + step / 4, step> read;
#pragma unroll
      for (int k = 0; k < read.count; ++k)
        read.words[k] = IS_CONSTANT ? __ldg(from + k) : Access::load(from + k);
      return tf::joined<T, N, step>(read.vec.v, skipped);
    }
  }
#endif
  return tf::load_within<T, N, ACCESS_BYTES, IS_CONSTANT>(p, first, extent, is_inner);
}

// chunk: load_row row_elements end_before ends_before
// A vector of a row of `extent` elements, whose first one has place `first`: of its lanes those beside the
// row have any value. A GPU reads the aligned words that have an element of the row, without a branch, so
// that several vectors are on their way together. Where memory may end inside a word, at `end`, a vector
// that does not end before it with all of its words is read element by element.
template <int N, class T>
TF_FN bool ends_before(const T* p, const T* end) {
  constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
  return p + N + step / sizeof(T) <= end;
}
template <int N, class T, int COUNT>
TF_FN bool end_before(const T* const (&p)[COUNT], const T* end) {
  const T* last = p[0];
#pragma unroll
  for (int k = 1; k < COUNT; ++k) last = p[k] > last ? p[k] : last;
  return tf::ends_before<N>(last, end);
}
template <class T, int N, class First, class Extent>
TF_FN tf::Vec<T, N> load_row(const T* p, First first, Extent extent) {
#ifdef TF_HOST
  return tf::load_within<T, N, sizeof(T)>(p, first, extent, tf::No{});
#else
  return tf::load_across<T, N>(p, first, extent);
#endif
}
template <class T, int N, class First, class Extent>
TF_FN tf::Vec<T, N> row_elements(const T* p, First first, Extent extent) {
#ifdef TF_HOST
  return tf::load_row<T, N>(p, first, extent);
#else
  constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
  return tf::load_elements<T, N, step>(p, first, extent);
#endif
}
template <class T, int N, class First, class Extent>
TF_FN tf::Vec<T, N> load_row(const T* p, First first, Extent extent, const T* end) {
  if (!tf::ends_before<N>(p, end)) return tf::row_elements<T, N>(p, first, extent);
  return tf::load_row<T, N>(p, first, extent);
}

// chunk: load_apart
// A vector that lies before place `extent`, if its first element does.
template <class T, int N, int ACCESS_BYTES, class First, class Extent>
TF_FN tf::Vec<T, N> load_apart(const T* p, First first, Extent extent) {
  return tf::load_if<T, N, ACCESS_BYTES>(first < extent, p);
}

// chunk: store_within
// The elements of a vector whose places, from `first` on, are in [0, extent): all of one that `is_inner`.
template <int ACCESS_BYTES, class T, int N, class First, class Extent, class IsInner>
TF_FN void store_within(T* p, const tf::Vec<T, N>& x, First first, Extent extent, IsInner is_inner) {
  if (is_inner || (first >= 0 && first + N <= extent)) return tf::store<ACCESS_BYTES>(p, x);
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (tf::within(first + k, extent)) p[k] = x.v[k];
}

// chunk: store_row
// The elements of a vector whose places, from `first` on, are in a row of `extent` of them. Rows begin and
// end at any UNIT elements, and where that is inside of the vector so many are stored at a time.
template <int ACCESS_BYTES, int UNIT, class T, int N, class First, class Extent>
TF_FN void store_row(T* p, const tf::Vec<T, N>& x, First first, Extent extent) {
  constexpr int bytes = UNIT * sizeof(T), step = bytes < ACCESS_BYTES ? bytes : ACCESS_BYTES;
  if (first >= 0 && first + N <= extent) return tf::store<ACCESS_BYTES>(p, x);
#pragma unroll
  for (int k = 0; k < N; k += UNIT) {
    tf::Vec<T, UNIT> part;
#pragma unroll
    for (int j = 0; j < UNIT; ++j) part.v[j] = x.v[k + j];
    if (tf::within(first + k, extent)) tf::store<step>(p + k, part);
  }
}

// chunk: load_words store_words Neighbours
// Vectors of whole words of 16 bytes that are aligned to their elements only, of threads side by side of
// which each has what lies behind that of the one before: a warp moves the aligned words, and its threads
// take from each other what these have of their neighbours' vectors. Elements that belong to no such word,
// before the first vector and behind the last, are moved one by one. `p` is in memory that begins aligned.
#ifdef TF_HOST
template <class T, int N>
TF_FN tf::Vec<T, N> load_words(const T* p) {
  return tf::load<T, N, sizeof(T)>(p);
}
template <class T, int N>
TF_FN void store_words(T* p, const tf::Vec<T, N>& x) {
  tf::store<sizeof(T)>(p, x);
}
#else
// Whether the thread before this one and the one behind it have the neighbouring vectors.
struct Neighbours {
  unsigned mask;
  bool before, behind;
  TF_FN Neighbours(unsigned long long at, unsigned bytes) {
    mask = __activemask();
    const unsigned lane = threadIdx.x % 32;
    const unsigned long long previous = __shfl_up_sync(mask, at, 1), next = __shfl_down_sync(mask, at, 1);
    before = lane > 0 && mask >> (lane - 1) & 1 && previous + bytes == at;
    behind = lane < 31 && mask >> (lane + 1) & 1 && at + bytes == next;
  }
};
template <class T, int N>
TF_FN tf::Vec<T, N> load_words(const T* p) {
  constexpr int bytes = sizeof(T) * N, count = bytes / 4;
  const unsigned long long at = reinterpret_cast<unsigned long long>(p);
  const tf::Neighbours next_to(at, bytes);
  const unsigned skipped = at % 16;
  const uint4* const from = reinterpret_cast<const uint4*>(at - skipped);
  Words<unsigned, count + 4, 16> read;
#pragma unroll
  for (int k = 0; k < count / 4; ++k) read.words[k] = from[k];
  uint4 next;
  next.x = __shfl_down_sync(next_to.mask, read.words[0].x, 1);
  next.y = __shfl_down_sync(next_to.mask, read.words[0].y, 1);
  next.z = __shfl_down_sync(next_to.mask, read.words[0].z, 1);
  next.w = __shfl_down_sync(next_to.mask, read.words[0].w, 1);
  if (!next_to.behind) {
    unsigned words[4] = {};
    const unsigned short* const left = reinterpret_cast<const unsigned short*>(from + count / 4);
    static_assert(sizeof(T) == 2, "elements of 16 bits");
#pragma unroll
    for (int k = 0; k < 7; ++k)
      if (2 * k < skipped) words[k / 2] |= unsigned(left[k]) << k % 2 * 16;
    next = make_uint4(words[0], words[1], words[2], words[3]);
  }
  read.words[count / 4] = next;
  return tf::joined<T, N, 16>(read.vec.v, skipped);
}
template <class T, int N>
TF_FN void store_words(T* p, const tf::Vec<T, N>& x) {
  static_assert(sizeof(T) * N == 16, "one word");
  const unsigned long long at = reinterpret_cast<unsigned long long>(p);
  const tf::Neighbours next_to(at, 16);
  const unsigned skipped = at % 16;
  Words<T, N, 4> own;
  own.vec = x;
  unsigned words[8];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    words[k] = __shfl_up_sync(next_to.mask, own.words[k], 1);
    words[k + 4] = own.words[k];
  }
  if (skipped == 0) return tf::store<16>(p, x);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const bool is_moved = k * sizeof(T) < 16 - skipped ? next_to.before : next_to.behind;
    if (!is_moved) p[k] = x.v[k];
  }
  if (next_to.before)
    tf::store<16>(reinterpret_cast<T*>(at - skipped), tf::joined<T, N, 16>(words, 16 - skipped));
}
#endif

// chunk: square_vector square_run square_element
// Where vector `vector` of a row, a part of one from an element on, and element `row` of the row
// LANES * vector + lane lie in a square. The vectors of a row are permuted, so that threads side by side
// along either side of the square meet no bank of shared memory twice.
template <int SIDE, int LANES>
TF_FN int square_vector(unsigned row, unsigned vector) {
  return row * SIDE + (vector ^ row / LANES % (SIDE / LANES)) * LANES;
}
template <int SIDE, int LANES>
TF_FN int square_run(unsigned row, unsigned element) {
  return row * SIDE + (element / LANES ^ row / LANES % (SIDE / LANES)) * LANES + element % LANES;
}
template <int SIDE, int LANES>
TF_FN int square_element(unsigned vector, unsigned lane, unsigned row) {
  return (LANES * vector + lane) * SIDE + (row / LANES ^ vector) * LANES + row % LANES;
}

// chunk: late_vector late_element
// Where vector `vector` of a row, and element `row` of the row LANES * vector + lane, lie in a square whose
// rows begin inside of vectors of RUN elements: a row is PITCH elements from the next one, and LANES of them
// end a vector before the next ones begin, so that threads side by side meet few banks twice.
template <int PITCH, int LANES, int RUN>
TF_FN int late_vector(unsigned row, unsigned vector) {
  return row / LANES * (LANES * PITCH + RUN) + row % LANES * PITCH + RUN * vector;
}
template <int PITCH, int LANES, int RUN>
TF_FN int late_element(int vector, int lane, int row) {
  return vector * (LANES * PITCH + RUN) + lane * PITCH + row;
}

// chunk: slab_vector slab_element
// Where vector `vector` of a run of EXTENT vectors, and element `row` of its row LANES * vector + lane, lie
// in a slab: a run has LANES rows of EXTENT elements, and is PITCH vectors from the next one.
template <int PITCH, int LANES>
TF_FN int slab_vector(unsigned run, unsigned vector) {
  return (run * PITCH + vector) * LANES;
}
template <int PITCH, int LANES, int EXTENT>
TF_FN int slab_element(unsigned vector, unsigned lane, unsigned row) {
  return vector * (PITCH * LANES) + lane * EXTENT + row;
}

// chunk: strip_place
// Where a row of a column lies in a strip: the columns of a lane are side by side, STRIDE places each,
// and those of the next lane APART columns on.
template <int STRIDE, int LANES, int APART>
TF_FN int strip_place(unsigned column, unsigned row) {
  return (column % LANES * APART + column / LANES) * STRIDE + row;
}

// chunk: copy_async commit_copies await_copies
// Copies of a thread's own vectors to shared memory that go on while it computes. What was started is
// a group from commit_copies on; await_copies<N> waits for all groups but the last N. Accesses below 4
// bytes, which the hardware does not copy so, are moved at once. The address of the slots is converted
// once, so that those of the vectors are offsets in the instruction. Copies go through the L1 cache: past
// it (.cg) rows of 5120 columns were walked 20 % slower, though nobody reads them twice.
template <int ACCESS_BYTES, class T, int N>
TF_FN void copy_async(tf::Vec<T, N>* slots, int index, const T* from) {
#ifndef TF_HOST
  if constexpr (ACCESS_BYTES >= 4) {
    const unsigned place =
        static_cast<unsigned>(__cvta_generic_to_shared(slots)) + index * unsigned(sizeof(tf::Vec<T, N>));
    const char* const source = reinterpret_cast<const char*>(from);
#pragma unroll
    for (int k = 0; k < int(sizeof(T)) * N / ACCESS_BYTES; ++k)
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place + k * ACCESS_BYTES),
                   "l"(source + k * ACCESS_BYTES), "n"(ACCESS_BYTES) : "memory");
    return;
  }
#endif
  slots[index] = tf::load<T, N, ACCESS_BYTES>(from);
}
TF_FN void commit_copies() {
#ifndef TF_HOST
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N>
TF_FN void await_copies() {
#ifndef TF_HOST
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// chunk: address_here
// An address that is known from here on. The loads of one that only a branch uses, the compiler would
// leave to that branch.
template <class T>
TF_FN const T* address_here(const T* p) {
#ifndef TF_HOST
  asm volatile("" ::"l"(p));
#endif
  return p;
}

// chunk: copy_async_within
// The same of a vector as load_within takes it. One that ends early is moved at once: the hardware would
// copy all of it, whatever size is said; and so is one that is aligned to its elements only.
template <int ACCESS_BYTES, class T, int N, class First, class Extent, class IsWhole>
TF_FN void copy_async_within(
    tf::Vec<T, N>* slots, int index, const T* from, First first, Extent extent, IsWhole is_whole) {
#ifndef TF_HOST
  if constexpr (ACCESS_BYTES < 4) {
    slots[index] = tf::load_within<T, N, ACCESS_BYTES>(from, first, extent, is_whole);
    return;
  }
  if (is_whole || (first >= 0 && first + N <= extent)) return tf::copy_async<ACCESS_BYTES>(slots, index, from);
#endif
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (tf::within(first + k, extent)) slots[index].v[k] = from[k];
}

// chunk: copy_async_if
// The same of a vector as load_if takes it.
template <int ACCESS_BYTES, class T, int N>
TF_FN void copy_async_if(bool is_used, tf::Vec<T, N>* slots, int index, const T* from) {
  if (is_used) return tf::copy_async<ACCESS_BYTES>(slots, index, from);
  slots[index] = {};
}

// chunk: copy_async_lanes
// The same of a vector as load_lanes and load_lanes_if take it.
template <int ACCESS_BYTES, class T, int N, class Place>
TF_FN void copy_async_lanes(tf::Vec<T, N>* slots, int index, const T* p, Place place) {
  constexpr int part = ACCESS_BYTES / sizeof(T);
  auto* const parts = reinterpret_cast<tf::Vec<T, part>*>(slots + index);
#pragma unroll
  for (int k = 0; k < N; k += part) tf::copy_async<ACCESS_BYTES>(parts, k / part, p + place(k));
}
template <int ACCESS_BYTES, class T, int N, class Place, class Test>
TF_FN void copy_async_lanes(tf::Vec<T, N>* slots, int index, const T* p, Place place, Test is_used) {
  tf::copy_async_lanes<ACCESS_BYTES>(slots, index, p, [&](int k) { return is_used(k) ? place(k) : 0; });
}

// chunk: copy_async_apart
// The same of a vector as load_apart takes it.
template <int ACCESS_BYTES, class T, int N, class First, class Extent>
TF_FN void copy_async_apart(
    tf::Vec<T, N>* slots, int index, const T* from, First first, Extent extent) {
  if (first < extent) tf::copy_async<ACCESS_BYTES>(slots, index, from);
}

// chunk: in_range
// An index below `extent`. Any other ends the launch, on a GPU as a failed assertion does.
#ifdef TF_HOST
TF_FN tf::i64 in_range(tf::i64 index, tf::i64 extent) {
  if (index < 0 || index >= extent) tf_host::fail_index(index, extent);
  return index;
}
#else
TF_FN tf::i64 in_range(tf::i64 index, tf::i64 extent) {
  if (index < 0 || index >= extent) {
    // What the assert of <assert.h> calls; NVRTC declares it, but not that it never returns.
    ::__assertfail("index out of range", "thunder_fuser", 0, "", 1);
    __builtin_unreachable();
  }
  // Two indices below 2^32 are compared in one instruction.
  return extent <= 1ll << 32 ? static_cast<unsigned>(index) : index;
}
#endif

// chunk: LaneChecks
// The same of the lanes of a vector, whose failures are told together behind them: behind a branch of each
// the next lane's loads would wait for those before. An index that fails is 0 until then.
struct LaneChecks {
  bool has_failed = false;
  TF_FN tf::i64 in_range(tf::i64 index, tf::i64 extent) {
#ifdef TF_HOST
    return tf::in_range(index, extent);
#else
    if (extent == 0) return tf::in_range(index, extent);
    const bool is_out = static_cast<unsigned long long>(index) >= static_cast<unsigned long long>(extent);
    has_failed |= is_out;
    const tf::i64 inside = extent <= 1ll << 32 ? static_cast<unsigned>(index) : index;
    return is_out ? 0 : inside;
#endif
  }
  TF_FN void end() const {
    if (has_failed) tf::in_range(-1, 0);
  }
};
