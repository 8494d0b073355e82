// Stand-ins for what NVRTC provides, so that kernel text compiles and runs as plain C++.
//
// A launch runs block after block. The threads of a block run one after the other, each to its end,
// on a stack (fiber) that passes from a finished thread to the next. A thread that has to wait, at
// a barrier or for the other lanes of its warp, keeps its stack, and the next thread gets another.
// So a kernel without barriers is a plain loop, and one with barriers needs nothing special.
//
// One launch at a time: __shared__ variables and the state below are static. The caller locks.
#pragma once

#define TF_HOST 1

#include <setjmp.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __managed__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)

struct uint3 { unsigned x, y, z; };
typedef uint3 dim3;
struct alignas(2) uchar2 { unsigned char x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };

inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace tf_host {

typedef unsigned long long u64;
const unsigned MAX_THREADS = 1024;        // CUDA's limit for a block
const u64 STACK_BYTES = 256 * 1024;       // pages of it that are never touched cost nothing
enum State : unsigned char { RUNNABLE, AT_BARRIER, AT_WARP, DONE };
enum Order : int { FORWARD, REVERSE, SHUFFLED };
enum Outcome : int { OK, DIVERGED, OUT_OF_MEMORY, BAD_INDEX };

struct Fiber {
  jmp_buf resume;
  bool has_started;
  Fiber* next_idle;
};

struct alignas(16) Value {
  unsigned char bytes[16];
};

struct Thread {
  State state;
  bool was_there;  // at the last release: it had not ended
  unsigned mask;   // the lanes it waits for
  Fiber* fiber;
  Value offered;  // to the threads it waits together with
  Value shown;    // what was offered when they were let go; holds until the next release
};

static Thread threads[MAX_THREADS];
static Fiber fibers[MAX_THREADS];
static unsigned order[MAX_THREADS];
static unsigned thread_count, next_thread, live, current, fiber_count;
static Fiber *running, *idle;
static char *stacks, *dynamic_shared;  // the latter: what `extern __shared__` is on a GPU
static jmp_buf scheduler;
static void (*body)();
static void** arguments;

static Outcome fault;           // of a thread that gave up
static long long bad_index[2];  // the index, and the extent that it should lie below

static void leave() {
  if (!_setjmp(running->resume)) _longjmp(scheduler, 1);
}

static void select(unsigned thread) {
  current = thread;
  threadIdx.x = thread;
}

static void run_threads() {
  for (;;) {
    while (next_thread < thread_count) {
      select(order[next_thread++]);
      body();
      threads[current].state = DONE;
      --live;
    }
    running->next_idle = idle;
    idle = running;
    leave();
  }
}

static void enter(Fiber* fiber) {
  running = fiber;
  if (_setjmp(scheduler)) return;
  if (fiber->has_started) _longjmp(fiber->resume, 1);
  fiber->has_started = true;
  static ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks + (fiber - fibers) * STACK_BYTES;
  context.uc_stack.ss_size = STACK_BYTES;
  context.uc_link = 0;
  makecontext(&context, run_threads, 0);
  setcontext(&context);
}

static Fiber* take_fiber() {
  if (!idle) return &fibers[fiber_count++];
  Fiber* fiber = idle;
  idle = fiber->next_idle;
  return fiber;
}

static void wait(State state, unsigned mask) {
  Thread& thread = threads[current];
  thread.state = state;
  thread.mask = mask;
  thread.fiber = running;
  leave();
}

// The lanes of `mask` in the warp at `first` all wait for each other, or have ended.
static bool meets(unsigned first, unsigned mask) {
  for (unsigned lane = 0; lane < 32 && first + lane < thread_count; ++lane) {
    const Thread& thread = threads[first + lane];
    if ((mask >> lane & 1) && thread.state != DONE &&
        (thread.state != AT_WARP || thread.mask != mask))
      return false;
  }
  return true;
}

// Let go whoever has nobody to wait for any more; they all run before the next release. False if
// there is no one.
static bool release() {
  bool all_at_barrier = true, any = false;
  for (unsigned i = 0; i < thread_count; ++i) {
    all_at_barrier &= threads[i].state == AT_BARRIER || threads[i].state == DONE;
    threads[i].was_there = threads[i].state != DONE;
    threads[i].shown = threads[i].offered;
  }
  for (unsigned i = 0; i < thread_count; ++i) {
    if (threads[i].state == DONE) continue;
    unsigned first = i & ~31u, mask = threads[i].mask;
    if (all_at_barrier) {
      threads[i].state = RUNNABLE;
      any = true;
    } else if (threads[i].state == AT_WARP && meets(first, mask)) {
      for (unsigned lane = 0; lane < 32 && first + lane < thread_count; ++lane)
        if ((mask >> lane & 1) && threads[first + lane].state == AT_WARP)
          threads[first + lane].state = RUNNABLE;
      any = true;
    }
  }
  return any;
}

static u64 random_state;

static u64 random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

// End the launch: nobody comes back to the threads that are under way.
static void fail_index(long long index, long long extent) {
  fault = BAD_INDEX;
  bad_index[0] = index;
  bad_index[1] = extent;
  _longjmp(scheduler, 1);
}

static void arrange(Order kind) {
  for (unsigned i = 0; i < thread_count; ++i)
    order[i] = kind == REVERSE ? thread_count - 1 - i : i;
  for (unsigned i = thread_count; kind == SHUFFLED && i > 1; --i) {
    unsigned other = random() % i, kept = order[i - 1];
    order[i - 1] = order[other];
    order[other] = kept;
  }
}

static Outcome run_block(Order kind) {
  live = thread_count;
  next_thread = 0;
  arrange(kind);
  while (next_thread < thread_count && !fault) enter(take_fiber());
  while (live && !fault) {
    if (!release()) return DIVERGED;
    arrange(kind);
    for (unsigned i = 0; i < thread_count; ++i)
      if (threads[order[i]].state == RUNNABLE && !fault) {
        select(order[i]);
        enter(threads[current].fiber);
      }
  }
  return fault;
}

// A multiplier that visits every block once in an order that looks like none.
static u64 stride_of(u64 blocks) {
  for (u64 stride = 2654435761u % blocks + 1;; ++stride) {
    u64 a = stride, b = blocks;
    while (b) { u64 rest = a % b; a = b; b = rest; }
    if (a == 1) return stride;
  }
}

static Outcome run_grid(u64 blocks, Order kind) {
  u64 stride = kind == SHUFFLED ? stride_of(blocks) : 1;
  u64 shift = kind == SHUFFLED ? random() % blocks : 0;
  gridDim = {(unsigned)blocks, 1, 1};
  blockDim = {thread_count, 1, 1};
  for (u64 i = 0; i < blocks; ++i) {
    blockIdx.x = kind == REVERSE ? blocks - 1 - i : (i * stride + shift) % blocks;
    for (unsigned t = 0; t < thread_count; ++t) threads[t].state = RUNNABLE;
    Outcome outcome = run_block(kind);
    if (outcome != OK) return outcome;
  }
  return OK;
}

static Outcome launch(u64 blocks, unsigned count, u64 shared_bytes, Order kind, u64 seed) {
  thread_count = count;
  random_state = seed * 0x9e3779b97f4a7c15ull + 1;
  fiber_count = 0;
  idle = 0;
  fault = OK;
  for (unsigned i = 0; i < count; ++i) fibers[i].has_started = false;
  stacks = (char*)__builtin_malloc(count * STACK_BYTES);
  dynamic_shared = (char*)__builtin_malloc(shared_bytes + 1);
  Outcome outcome = stacks && dynamic_shared ? run_grid(blocks, kind) : OUT_OF_MEMORY;
  __builtin_free(stacks);
  __builtin_free(dynamic_shared);
  return outcome;
}

template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Indices<I...> Type; };

template <class... P> struct Kernel {
  static inline void (*function)(P...);
  template <int... I> static void call(Indices<I...>) { function(*(P*)arguments[I]...); }
  static void run() { call(typename Count<sizeof...(P)>::Type()); }
};

template <class... P> void bind(void (*function)(P...), void** values) {
  Kernel<P...>::function = function;
  body = Kernel<P...>::run;
  arguments = values;
}

// Offer `value`, and wait until everyone concerned has.
template <class T> void exchange(T value, State state, unsigned mask) {
  static_assert(sizeof(T) <= sizeof(Value), "threads exchange at most 16 bytes");
  __builtin_memcpy(threads[current].offered.bytes, &value, sizeof(T));
  wait(state, mask);
}

template <class T> T shown(unsigned thread) {
  T value;
  __builtin_memcpy(&value, threads[thread].shown.bytes, sizeof(T));
  return value;
}

inline bool voted(unsigned thread) { return threads[thread].was_there && shown<bool>(thread); }

// `source` is a lane of the own segment of `width` lanes, or anything else to keep the own value.
template <class T> T shuffle(unsigned mask, T value, int source, int width) {
  exchange(value, AT_WARP, mask);
  int first = current & 31 & ~(width - 1);
  bool inside = source >= first && source < first + width;
  return shown<T>(inside ? (current & ~31u) + source : current);
}

inline int lane() { return current & 31; }

inline unsigned ballot(unsigned mask, bool vote) {
  exchange(vote, AT_WARP, mask);
  unsigned votes = 0, first = current & ~31u;
  for (unsigned i = 0; i < 32 && first + i < thread_count; ++i)
    if ((mask >> i & 1) && voted(first + i)) votes |= 1u << i;
  return votes;
}

inline int barrier_count(bool vote) {
  exchange(vote, AT_BARRIER, 0);
  int votes = 0;
  for (unsigned i = 0; i < thread_count; ++i) votes += voted(i);
  return votes;
}

}  // namespace tf_host

inline void __syncthreads() { tf_host::wait(tf_host::AT_BARRIER, 0); }
inline void __syncwarp(unsigned mask = ~0u) { tf_host::wait(tf_host::AT_WARP, mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __trap() { __builtin_trap(); }

template <class T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  int source = (tf_host::lane() & ~(width - 1)) | (lane & (width - 1));
  return tf_host::shuffle(mask, value, source, width);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return tf_host::shuffle(mask, value, tf_host::lane() - (int)delta, width);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return tf_host::shuffle(mask, value, tf_host::lane() + (int)delta, width);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return tf_host::shuffle(mask, value, tf_host::lane() ^ lanes, width);
}
inline unsigned __ballot_sync(unsigned mask, int vote) { return tf_host::ballot(mask, vote != 0); }
inline int __any_sync(unsigned mask, int vote) { return tf_host::ballot(mask, vote != 0) != 0; }
inline int __all_sync(unsigned mask, int vote) { return tf_host::ballot(mask, vote == 0) == 0; }
inline int __syncthreads_count(int vote) { return tf_host::barrier_count(vote != 0); }
inline int __syncthreads_or(int vote) { return tf_host::barrier_count(vote != 0) != 0; }
inline int __syncthreads_and(int vote) { return tf_host::barrier_count(vote == 0) == 0; }

// Blocks and threads never run at the same instant here, so an atomic is its plain operation.
#define TF_ATOMIC(name, result)                                          \
  template <class T, class U> T name(T* at, U value) {                   \
    T old = *at, given = (T)value;                                       \
    *at = (result);                                                      \
    return old;                                                          \
  }
TF_ATOMIC(atomicAdd, old + given)
TF_ATOMIC(atomicExch, given)
TF_ATOMIC(atomicMax, given > old ? given : old)
TF_ATOMIC(atomicMin, given < old ? given : old)
#undef TF_ATOMIC
template <class T, class U, class V> T atomicCAS(T* at, U expected, V value) {
  T old = *at;
  if (old == (T)expected) *at = (T)value;
  return old;
}
inline unsigned atomicInc(unsigned* at, unsigned limit) {
  unsigned old = *at;
  *at = old >= limit ? 0 : old + 1;
  return old;
}

// Cache hints are hints.
template <class T> T __ldg(const T* from) { return *from; }
template <class T> T __ldca(const T* from) { return *from; }
template <class T> T __ldcg(const T* from) { return *from; }
template <class T> T __ldcs(const T* from) { return *from; }
template <class T> T __ldlu(const T* from) { return *from; }
template <class T> T __ldcv(const T* from) { return *from; }
template <class T> void __stwb(T* to, T value) { *to = value; }
template <class T> void __stcg(T* to, T value) { *to = value; }
template <class T> void __stcs(T* to, T value) { *to = value; }
template <class T> void __stwt(T* to, T value) { *to = value; }

// Compiled with contraction off, so that the plain operators round as these say.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }

inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
inline long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned __int128)a * b >> 64;
}
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }

#define TF_BITS(name, from, to)                                                                    \
  inline to name(from value) { to bits; __builtin_memcpy(&bits, &value, sizeof(to)); return bits; }
TF_BITS(__float_as_int, float, int)
TF_BITS(__float_as_uint, float, unsigned)
TF_BITS(__int_as_float, int, float)
TF_BITS(__uint_as_float, unsigned, float)
TF_BITS(__double_as_longlong, double, long long)
TF_BITS(__longlong_as_double, long long, double)
#undef TF_BITS

#define TF_ENTRY(kernel)                                                                           \
  extern "C" __attribute__((visibility("default"))) int tf_launch(                                 \
      void** values, tf_host::u64 blocks, unsigned threads, tf_host::u64 shared_bytes, int order,  \
      tf_host::u64 seed) {                                                                         \
    tf_host::bind(kernel, values);                                                                 \
    return tf_host::launch(blocks, threads, shared_bytes, (tf_host::Order)order, seed);            \
  }                                                                                                \
  extern "C" __attribute__((visibility("default"))) const long long* tf_bad_index() {              \
    return tf_host::bad_index;                                                                     \
  }
