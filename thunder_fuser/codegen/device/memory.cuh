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
