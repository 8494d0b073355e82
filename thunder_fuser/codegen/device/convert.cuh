// Conversions between all element types, with torch's roundings.

// chunk: widen when bf16
// One PRMT from either half of a register; a shift of the upper half would be two instructions.
TF_FN float widen(tf::bf16 x) {
#ifdef TF_HOST
  return tf::from_bits(static_cast<unsigned>(x.data) << 16);
#else
  float y;
  asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.data));
  return y;
#endif
}

// chunk: to_bf16
// Round to nearest even; every NaN becomes 0x7fff, as cvt.rn.bf16.f32 gives.
TF_FN tf::bf16 to_bf16(float x) {
#ifdef TF_HOST
  const unsigned b = tf::bits(x);
  if (x != x) return {0x7fff};
  return {static_cast<unsigned short>((b + 0x7fffu + ((b >> 16) & 1u)) >> 16)};
#else
  tf::bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.data) : "f"(x));
  return y;
#endif
}

// chunk: widen when f16
TF_FN float widen(tf::f16 x) {
#ifdef TF_HOST
  const unsigned sign = static_cast<unsigned>(x.data & 0x8000u) << 16, body = x.data & 0x7fffu;
  if (body >= 0x7c00u) return tf::from_bits(sign | 0x7f800000u | (body & 0x3ffu) << 13);
  // Scaling by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals.
  return tf::from_bits(sign | tf::bits(tf::from_bits(body << 13) * 0x1p112f));
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.data));
  return y;
#endif
}

// chunk: to_f16
TF_FN tf::f16 to_f16(float x) {
#ifdef TF_HOST
  const unsigned b = tf::bits(x), sign = b >> 16 & 0x8000u, body = b & 0x7fffffffu;
  if (x != x) return {0x7fff};
  unsigned half;
  if (body >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (body < 0x38800000u) {  // below 2^-14: adding 1/2 leaves the subnormal in the low bits
    half = tf::bits(tf::from_bits(body) + 0.5f) - 0x3f000000u;
  } else {  // rebias by -112 and round the 13 lost bits to nearest even
    half = (body - 0x38000000u + 0xfffu + (body >> 13 & 1u)) >> 13;
  }
  return {static_cast<unsigned short>(sign | half)};
#else
  tf::f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.data) : "f"(x));
  return y;
#endif
}

// chunk: Float8
// A float of 8 bits in plain C++. From LIMIT on the bits below the sign are infinity and NaN.
template <int MANTISSA, int BIAS, unsigned LIMIT>
struct Float8 {
  static constexpr int SHIFT = 23 - MANTISSA;
  static constexpr unsigned REBIAS = (127u - BIAS) << 23;
  TF_FN static float widen(unsigned char data) {
    const unsigned sign = (data & 0x80u) << 24, body = data & 0x7fu;
    if (body >= LIMIT) return tf::from_bits(sign | 0x7f800000u | body << SHIFT);
    // The product moves the exponent's bias and normalises subnormals.
    const float scale = tf::from_bits((254u - BIAS) << 23);
    return tf::from_bits(sign | tf::bits(tf::from_bits(body << SHIFT) * scale));
  }
  // Round to nearest even; what is too large is not the largest number, and NaN keeps its sign.
  TF_FN static unsigned char narrow(float x) {
    const unsigned sign = tf::bits(x) >> 24 & 0x80u, body = tf::bits(x) & 0x7fffffffu;
    unsigned found;
    if (x != x) {
      found = 0x7fu;
    } else if (body < REBIAS + (1u << 23)) {  // the sum leaves the subnormal in its low bits
      constexpr unsigned UNIT = REBIAS + ((SHIFT + 1u) << 23);
      found = tf::bits(tf::from_bits(body) + tf::from_bits(UNIT)) - UNIT;
    } else {
      found = (body - REBIAS + (1u << (SHIFT - 1)) - 1u + (body >> SHIFT & 1u)) >> SHIFT;
      found = found < LIMIT ? found : LIMIT;
    }
    return static_cast<unsigned char>(sign | found);
  }
};

// chunk: beyond TF_SATURATED
// A float of 8 bits that was saturated, and whose NaN has no sign: a number above `most` becomes what
// follows the largest one, whose bits are 1 more. The condition is that of one instruction; written
// as a choice it takes three.
#ifndef TF_HOST
#define TF_SATURATED(kind, found, x)                                                             \
  asm("{.reg .b16 p; cvt.rn.satfinite." #kind "x2.f32 p, %1, %2; mov.b32 %0, {p, 0};}"           \
      : "=r"(found)                                                                              \
      : "f"(0.0f), "f"(x))
TF_FN unsigned char beyond(unsigned found, float x, float most) {
  found |= tf::bits(x) >> 24 & 0x80u;
  asm("{.reg .pred p; setp.gt.f32 p, %1, %2; @p add.u32 %0, %0, 1;}"
      : "+r"(found)
      : "f"(fabsf(x)), "f"(most));
  return static_cast<unsigned char>(found);
}
#endif

// chunk: widen when f8e4m3
TF_FN float widen(tf::f8e4m3 x) {
#if !defined(TF_HOST) && __CUDA_ARCH__ >= 890
  unsigned pair;
  float y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(x.data)));
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(static_cast<unsigned short>(pair)));
  return y;
#else
  return tf::Float8<3, 7, 0x7f>::widen(x.data);
#endif
}

// chunk: widen when f8e5m2
TF_FN float widen(tf::f8e5m2 x) {
#ifdef TF_HOST
  return tf::Float8<2, 15, 0x7c>::widen(x.data);
#else
  float y;  // it is the upper half of a 16-bit float
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(static_cast<unsigned short>(x.data << 8)));
  return y;
#endif
}

// chunk: to_f8e4m3
TF_FN tf::f8e4m3 to_f8e4m3(float x) {
#if !defined(TF_HOST) && __CUDA_ARCH__ >= 890
  unsigned found;
  TF_SATURATED(e4m3, found, x);
  return {tf::beyond(found, x, 464.0f)};  // halfway to the next, and even
#else
  return {tf::Float8<3, 7, 0x7f>::narrow(x)};
#endif
}

// chunk: to_f8e5m2
TF_FN tf::f8e5m2 to_f8e5m2(float x) {
#if !defined(TF_HOST) && __CUDA_ARCH__ >= 890
  unsigned found;
  TF_SATURATED(e5m2, found, x);
  return {tf::beyond(found, x, 0x1.dffffep15f)};  // below 61440, which is halfway
#else
  return {tf::Float8<2, 15, 0x7c>::narrow(x)};
#endif
}

// chunk: to_integer
// Float to integer as the hardware does it: towards zero, saturating, NaN to 0 or, where a side is
// 64 bits wide, to the smallest value. Integers below 32 bits are cut out of wider ones.
template <class To, class From>
TF_FN To to_integer(From x) {
#ifdef TF_HOST
  constexpr To lowest = To(1ull << (8 * sizeof(To) - 1));
  if (x != x) return sizeof(To) == 8 || sizeof(From) == 8 ? lowest : To(0);
  if (x >= -From(lowest)) return To(~lowest);
  if (x < From(lowest)) return lowest;
#endif
  return static_cast<To>(x);
}

// chunk: convert TF_FLOAT_TO
template <class To, class From>
struct Convert {
  TF_FN static To apply(From x) { return static_cast<To>(x); }
};
template <class To>
struct Convert<To, To> {
  TF_FN static To apply(To x) { return x; }
};
#define TF_FLOAT_TO(From)                                                                        \
  template <>                                                                                    \
  struct Convert<signed char, From> {                                                            \
    TF_FN static signed char apply(From x) {                                                     \
      return static_cast<signed char>(tf::to_integer<int>(x));                                   \
    }                                                                                            \
  };                                                                                             \
  template <>                                                                                    \
  struct Convert<unsigned char, From> {                                                          \
    TF_FN static unsigned char apply(From x) {                                                   \
      return static_cast<unsigned char>(tf::to_integer<long long>(x));                           \
    }                                                                                            \
  };                                                                                             \
  template <>                                                                                    \
  struct Convert<short, From> {                                                                  \
    TF_FN static short apply(From x) { return static_cast<short>(tf::to_integer<int>(x)); }      \
  };                                                                                             \
  template <>                                                                                    \
  struct Convert<int, From> {                                                                    \
    TF_FN static int apply(From x) { return tf::to_integer<int>(x); }                            \
  };                                                                                             \
  template <>                                                                                    \
  struct Convert<long long, From> {                                                              \
    TF_FN static long long apply(From x) { return tf::to_integer<long long>(x); }                \
  };
TF_FLOAT_TO(float)
TF_FLOAT_TO(double)
#undef TF_FLOAT_TO
template <class To, class From>
TF_FN To convert(From x) {
  return Convert<To, From>::apply(x);
}

// chunk: in_8_bits
// What was computed of 8-bit integers, with the bits above them named. NVRTC 13.0 was seen to leave
// out that they are copies of the sign, in one of five copies of a loop: the difference of two
// bytes was compared and converted with that of their neighbours above it.
TF_FN tf::i8 in_8_bits(int x) {
#ifndef TF_HOST
  asm("cvt.s32.s8 %0, %0;" : "+r"(x));
#endif
  return static_cast<tf::i8>(x);
}

// chunk: TF_THROUGH_FLOAT
// The conversions of a type that is computed with as float.
#define TF_THROUGH_FLOAT(type, narrow)                                                           \
  template <class To>                                                                            \
  struct Convert<To, type> {                                                                     \
    TF_FN static To apply(type x) { return Convert<To, float>::apply(tf::widen(x)); }            \
  };                                                                                             \
  template <class From>                                                                          \
  struct Convert<type, From> {                                                                   \
    TF_FN static type apply(From x) { return narrow(Convert<float, From>::apply(x)); }           \
  };                                                                                             \
  template <>                                                                                    \
  struct Convert<type, type> {                                                                   \
    TF_FN static type apply(type x) { return x; }                                                \
  };

// chunk: TF_BETWEEN
// The conversions between two such types.
#define TF_BETWEEN(a, b)                                                                         \
  template <>                                                                                    \
  struct Convert<a, b> {                                                                         \
    TF_FN static a apply(b x) { return Convert<a, float>::apply(tf::widen(x)); }                 \
  };                                                                                             \
  template <>                                                                                    \
  struct Convert<b, a> {                                                                         \
    TF_FN static b apply(a x) { return Convert<b, float>::apply(tf::widen(x)); }                 \
  };

// chunk: convert when bf16
TF_THROUGH_FLOAT(tf::bf16, tf::to_bf16)

// chunk: convert when f16
TF_THROUGH_FLOAT(tf::f16, tf::to_f16)

// chunk: convert when f8e4m3
TF_THROUGH_FLOAT(tf::f8e4m3, tf::to_f8e4m3)

// chunk: convert when f8e5m2
TF_THROUGH_FLOAT(tf::f8e5m2, tf::to_f8e5m2)

// chunk: convert when bf16 f16
TF_BETWEEN(tf::bf16, tf::f16)

// chunk: convert when bf16 f8e4m3
TF_BETWEEN(tf::bf16, tf::f8e4m3)

// chunk: convert when bf16 f8e5m2
TF_BETWEEN(tf::bf16, tf::f8e5m2)

// chunk: convert when f16 f8e4m3
TF_BETWEEN(tf::f16, tf::f8e4m3)

// chunk: convert when f16 f8e5m2
TF_BETWEEN(tf::f16, tf::f8e5m2)

// chunk: convert when f8e4m3 f8e5m2
TF_BETWEEN(tf::f8e4m3, tf::f8e5m2)

// chunk: convert when complex
// A real type takes the real part, bool the truth of either part.
template <class To, class From>
struct Convert<To, tf::complex<From>> {
  TF_FN static To apply(tf::complex<From> x) { return Convert<To, From>::apply(x.re); }
};
template <class From>
struct Convert<bool, tf::complex<From>> {
  TF_FN static bool apply(tf::complex<From> x) { return static_cast<bool>(x); }
};
template <class To, class From>
struct Convert<tf::complex<To>, From> {
  TF_FN static tf::complex<To> apply(From x) { return {Convert<To, From>::apply(x), To(0)}; }
};
template <class To, class From>
struct Convert<tf::complex<To>, tf::complex<From>> {
  TF_FN static tf::complex<To> apply(tf::complex<From> x) {
    return {static_cast<To>(x.re), static_cast<To>(x.im)};
  }
};
template <class To>
struct Convert<tf::complex<To>, tf::complex<To>> {
  TF_FN static tf::complex<To> apply(tf::complex<To> x) { return x; }
};

// chunk: TF_OF_COMPLEX
#define TF_OF_COMPLEX(type)                                                                      \
  template <class From>                                                                          \
  struct Convert<type, tf::complex<From>> {                                                      \
    TF_FN static type apply(tf::complex<From> x) { return Convert<type, From>::apply(x.re); }    \
  };                                                                                             \
  template <class To>                                                                            \
  struct Convert<tf::complex<To>, type> {                                                        \
    TF_FN static tf::complex<To> apply(type x) { return {Convert<To, type>::apply(x), To(0)}; }  \
  };

// chunk: convert when complex bf16
TF_OF_COMPLEX(tf::bf16)

// chunk: convert when complex f16
TF_OF_COMPLEX(tf::f16)

// chunk: convert when complex f8e4m3
TF_OF_COMPLEX(tf::f8e4m3)

// chunk: convert when complex f8e5m2
TF_OF_COMPLEX(tf::f8e5m2)

// chunk: round_to
// The float nearest to x that `Narrow` can hold: a rounding point of the trace.
template <class Narrow>
TF_FN float round_to(float x) {
  return tf::convert<float>(tf::convert<Narrow>(x));
}

// chunk: convert_vec
template <class To, class From, int N>
struct ConvertVec {
  TF_FN static tf::Vec<To, N> apply(const tf::Vec<From, N>& x) {
    tf::Vec<To, N> y;
#pragma unroll
    for (int k = 0; k < N; ++k) y.v[k] = tf::convert<To>(x.v[k]);
    return y;
  }
};
template <class To, class From, int N>
TF_FN tf::Vec<To, N> convert_vec(const tf::Vec<From, N>& x) {
  return ConvertVec<To, From, N>::apply(x);
}

// chunk: TF_NARROW_PAIRS
// Two floats become one register of two 16-bit floats in one instruction.
#ifndef TF_HOST
#define TF_NARROW_PAIRS(type)                                                                    \
  template <int N>                                                                               \
  struct ConvertVec<type, float, N> {                                                            \
    TF_FN static tf::Vec<type, N> apply(const tf::Vec<float, N>& x) {                            \
      tf::Vec<type, N> y;                                                                        \
      _Pragma("unroll") for (int k = 0; k + 1 < N; k += 2) {                                     \
        unsigned pair; /* the first source goes to the upper half */                             \
        asm("cvt.rn." #type "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x.v[k + 1]), "f"(x.v[k]));   \
        y.v[k].data = static_cast<unsigned short>(pair);                                         \
        y.v[k + 1].data = static_cast<unsigned short>(pair >> 16);                               \
      }                                                                                          \
      if (N % 2) y.v[N - 1] = to_##type(x.v[N - 1]);                                             \
      return y;                                                                                  \
    }                                                                                            \
  };
#endif

// chunk: convert_vec when bf16
#ifndef TF_HOST
TF_NARROW_PAIRS(bf16)
#endif

// chunk: convert_vec when f16
#ifndef TF_HOST
TF_NARROW_PAIRS(f16)
#endif

// chunk: renew
// The same elements, of which the compiler does not know that they are: what it made of them before is
// computed anew rather than kept in registers, or spilled. No grid has a second row of blocks.
template <class T, int N>
TF_FN void renew(tf::Vec<T, N>& x) {
#ifndef TF_HOST
  if constexpr (sizeof(x) % sizeof(unsigned) == 0) {
    unsigned* const words = reinterpret_cast<unsigned*>(&x);
#pragma unroll
    for (int k = 0; k < int(sizeof(x) / sizeof(unsigned)); ++k) words[k] ^= gridDim.y - 1;
  } else if constexpr (sizeof(x) == sizeof(unsigned char)) {
    *reinterpret_cast<unsigned char*>(&x) ^= static_cast<unsigned char>(gridDim.y - 1);
  } else {
    *reinterpret_cast<unsigned short*>(&x) ^= static_cast<unsigned short>(gridDim.y - 1);
  }
#endif
}
