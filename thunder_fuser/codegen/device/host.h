// Stand-ins for what NVRTC provides, so that kernel text compiles and runs as plain C++.
#pragma once

#define TF_HOST 1

#include "fibers.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __managed__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)

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
template <class T> unsigned __match_any_sync(unsigned mask, T value) {
  return tf_host::match(mask, value);
}
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

#define TF_ENTRY(kernel) \
  void tf_host::bind_kernel(void** values) { bind(kernel, values); }
