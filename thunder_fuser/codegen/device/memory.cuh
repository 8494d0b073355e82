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

// chunk: TF_DYNAMIC_SHARED
// TF_DYNAMIC_SHARED(float, tile): the shared memory sized at launch, which host.h allocates.
#ifdef TF_HOST
#define TF_DYNAMIC_SHARED(type, name)                                            \
  type* const name = reinterpret_cast<type*>(tf_host::dynamic_shared)
#else
#define TF_DYNAMIC_SHARED(type, name)                                            \
  extern __shared__ uint4 dynamic_shared[];                                      \
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

// chunk: load_lanes
// Elements that lie apart, that of lane k at `place(k)`.
template <int N, class T, class Place>
TF_FN tf::Vec<T, N> load_lanes(const T* p, Place place) {
  tf::Vec<T, N> x;
#pragma unroll
  for (int k = 0; k < N; ++k) x.v[k] = p[place(k)];
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

// chunk: load_within
// A vector whose first element has place `first`: elements beyond the places [0, extent) are not read.
template <class T, int N, int ACCESS_BYTES, class First, class Extent>
TF_FN tf::Vec<T, N> load_within(const T* p, First first, Extent extent) {
  if (first + N <= extent) return tf::load<T, N, ACCESS_BYTES>(p);
  tf::Vec<T, N> x = {};
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (first + k < extent) x.v[k] = p[k];
  return x;
}

// chunk: store_within
// The elements of a vector whose places, from `first` on, are in [0, extent).
template <int ACCESS_BYTES, class T, int N, class First, class Extent>
TF_FN void store_within(T* p, const tf::Vec<T, N>& x, First first, Extent extent) {
  if (first >= 0 && first + N <= extent) return tf::store<ACCESS_BYTES>(p, x);
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (first + k >= 0 && first + k < extent) p[k] = x.v[k];
}

// chunk: square_vector square_element
// Where vector `vector` of a row, and element `row` of the row LANES * vector + lane, lie in a square.
// The vectors of a row are permuted, so that threads side by side along either side of the square meet
// no bank of shared memory twice.
template <int SIDE, int LANES>
TF_FN int square_vector(unsigned row, unsigned vector) {
  return row * SIDE + (vector ^ row / LANES % (SIDE / LANES)) * LANES;
}
template <int SIDE, int LANES>
TF_FN int square_element(unsigned vector, unsigned lane, unsigned row) {
  return (LANES * vector + lane) * SIDE + (row / LANES ^ vector) * LANES + row % LANES;
}

// chunk: copy_async commit_copies await_copies
// Copies of a thread's own vectors to shared memory that go on while it computes. What was started is
// a group from commit_copies on; await_copies<N> waits for all groups but the last N. Accesses below 4
// bytes, which the hardware does not copy so, are moved at once. The address of the slots is converted
// once, so that those of the vectors are offsets in the instruction.
template <int ACCESS_BYTES, class T, int N>
TF_FN void copy_async(tf::Vec<T, N>* slots, int index, const T* from) {
#ifndef TF_HOST
  if constexpr (ACCESS_BYTES >= 4) {
    const unsigned place =
        static_cast<unsigned>(__cvta_generic_to_shared(slots)) + index * unsigned(sizeof(tf::Vec<T, N>));
    const char* const source = reinterpret_cast<const char*>(from);
#pragma unroll
    for (int k = 0; k < int(sizeof(T)) * N / ACCESS_BYTES; ++k) {
      if constexpr (ACCESS_BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place + k * 16),
                     "l"(source + k * 16) : "memory");
      else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place + k * ACCESS_BYTES),
                     "l"(source + k * ACCESS_BYTES), "n"(ACCESS_BYTES) : "memory");
    }
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

// chunk: copy_async_within
// The same of a vector whose first element has place `first`: elements beyond the places [0, extent)
// are not read, and a vector that has such ones is moved at once.
template <int ACCESS_BYTES, class T, int N, class First, class Extent>
TF_FN void copy_async_within(
    tf::Vec<T, N>* slots, int index, const T* from, First first, Extent extent) {
  if (first + N <= extent)
    tf::copy_async<ACCESS_BYTES>(slots, index, from);
  else
    slots[index] = tf::load_within<T, N, ACCESS_BYTES>(from, first, extent);
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
  // What the assert of <assert.h> calls; NVRTC declares it.
  if (index < 0 || index >= extent) ::__assertfail("index out of range", "thunder_fuser", 0, "", 1);
  return index;
}
#endif
