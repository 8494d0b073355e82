// Arithmetic that is exact or defined by bits: rounding functions, remainders, shifts, predicates.

// chunk: ceil floor trunc round TF_WHOLE
// Integers are whole already; `round` is half to even.
#ifdef TF_HOST
#define TF_WHOLE(name, builtin)                                             \
  template <class T>                                                        \
  TF_FN T name(T x) {                                                       \
    return x;                                                               \
  }                                                                         \
  TF_FN float name(float x) { return __builtin_##builtin##f(x); }           \
  TF_FN double name(double x) { return __builtin_##builtin(x); }
#else
#define TF_WHOLE(name, builtin)                                             \
  template <class T>                                                        \
  TF_FN T name(T x) {                                                       \
    return x;                                                               \
  }                                                                         \
  TF_FN float name(float x) { return ::builtin##f(x); }                     \
  TF_FN double name(double x) { return ::builtin(x); }
#endif
TF_WHOLE(ceil, ceil)
TF_WHOLE(floor, floor)
TF_WHOLE(trunc, trunc)
TF_WHOLE(round, rint)
#undef TF_WHOLE

// chunk: abs
template <class T>
TF_FN T abs(T x) {
  return x < T(0) ? T(-x) : x;
}
#ifdef TF_HOST
TF_FN float abs(float x) { return __builtin_fabsf(x); }
TF_FN double abs(double x) { return __builtin_fabs(x); }
#else
TF_FN float abs(float x) { return ::fabsf(x); }
TF_FN double abs(double x) { return ::fabs(x); }
#endif

// chunk: maximum minimum
// A NaN on either side is the result.
template <class T>
TF_FN T maximum(T a, T b) {
  return a != a || a > b ? a : b;
}
template <class T>
TF_FN T minimum(T a, T b) {
  return a != a || a < b ? a : b;
}
#if !defined(TF_HOST) && __CUDA_ARCH__ >= 800
// One instruction instead of five.
TF_FN float maximum(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
TF_FN float minimum(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// Of numbers without a sign: ptxas 13.0 makes one instruction of max(max(-a, -b), c), and forgets
// that b is negated.
TF_FN int maximum(int a, int b) {
  unsigned y;
  asm("max.u32 %0, %1, %2;" : "=r"(y) : "r"(a ^ 0x80000000), "r"(b ^ 0x80000000));
  return y ^ 0x80000000;
}
TF_FN int minimum(int a, int b) {
  unsigned y;
  asm("min.u32 %0, %1, %2;" : "=r"(y) : "r"(a ^ 0x80000000), "r"(b ^ 0x80000000));
  return y ^ 0x80000000;
}
#endif

// chunk: clamp
template <class T>
TF_FN T clamp(T x, T low, T high) {
  return tf::minimum(tf::maximum(x, low), high);
}

// chunk: bitwise_not
template <class T>
TF_FN T bitwise_not(T x) {
  return T(~x);
}
TF_FN bool bitwise_not(bool x) { return !x; }

// chunk: signbit
template <class T>
TF_FN bool signbit(T x) {
  return x < T(0);
}
TF_FN bool signbit(float x) { return tf::bits(x) >> 31; }
TF_FN bool signbit(double x) { return tf::bits(x) >> 63; }

// chunk: isfinite isinf isnan isposinf isneginf
template <class T>
TF_FN bool isposinf(T) {
  return false;
}
TF_FN bool isposinf(float x) { return x == tf::infinity<float>(); }
TF_FN bool isposinf(double x) { return x == tf::infinity<double>(); }
template <class T>
TF_FN bool isneginf(T) {
  return false;
}
TF_FN bool isneginf(float x) { return x == -tf::infinity<float>(); }
TF_FN bool isneginf(double x) { return x == -tf::infinity<double>(); }
template <class T>
TF_FN bool isnan(T x) {
  return x != x;
}
template <class T>
TF_FN bool isinf(T x) {
  return tf::isposinf(x) || tf::isneginf(x);
}
template <class T>
TF_FN bool isfinite(T x) {
  return !tf::isinf(x) && !tf::isnan(x);
}

// chunk: isfinite isinf isnan when complex
template <class T>
TF_FN bool isinf(tf::complex<T> x) {
  return tf::isinf(x.re) || tf::isinf(x.im);
}
template <class T>
TF_FN bool isnan(tf::complex<T> x) {
  return tf::isnan(x.re) || tf::isnan(x.im);
}
template <class T>
TF_FN bool isfinite(tf::complex<T> x) {
  return tf::isfinite(x.re) && tf::isfinite(x.im);
}

// chunk: isreal
template <class T>
TF_FN bool isreal(T) {
  return true;
}

// chunk: isreal when complex
template <class T>
TF_FN bool isreal(tf::complex<T> x) {
  return x.im == T(0);
}

// chunk: real
template <class T>
TF_FN T real(T x) {
  return x;
}

// chunk: real when complex
template <class T>
TF_FN T real(tf::complex<T> x) {
  return x.re;
}

// chunk: imag
template <class T>
TF_FN T imag(tf::complex<T> x) {
  return x.im;
}

// chunk: is_minus_one
template <class T>
TF_FN bool is_minus_one(T x) {
  return T(-1) < T(0) && x == T(-1);
}

// chunk: fmod
// Integers: division by zero leaves the dividend, and the quotient of the smallest integer by -1,
// which does not exist, leaves 0; neither traps on the host.
template <class T>
TF_FN T fmod(T a, T b) {
  return b == T(0) ? a : tf::is_minus_one(b) ? T(0) : T(a % b);
}
#ifdef TF_HOST
TF_FN float fmod(float a, float b) { return __builtin_fmodf(a, b); }
TF_FN double fmod(double a, double b) { return __builtin_fmod(a, b); }
#else
TF_FN float fmod(float a, float b) { return ::fmodf(a, b); }
TF_FN double fmod(double a, double b) { return ::fmod(a, b); }
#endif

// chunk: remainder
// The sign is the divisor's; a zero keeps the dividend's.
template <class T>
TF_FN T remainder(T a, T b) {
  const T left = tf::fmod(a, b);
  return b != T(0) && left != T(0) && (left < T(0)) != (b < T(0)) ? T(left + b) : left;
}

// chunk: div
// Integers truncate; division by zero gives -1, the all-ones quotient of the hardware.
template <class T>
TF_FN T div(T a, T b) {
  return b == T(0) ? T(-1) : tf::is_minus_one(b) ? T(T(0) - a) : T(a / b);
}
TF_FN float div(float a, float b) { return a / b; }
TF_FN double div(double a, double b) { return a / b; }

// chunk: divided_by
// The quotient by a literal, as a product with two parts of its reciprocal that the compiler
// computes: one that is smaller and the rest, of the same sign, so that an infinite a stays one. It is
// correctly rounded but within 2^-22 units of the last place of the middle between two numbers, or
// where the product with the rest is subnormal: there it may be a unit off.
TF_FN float divided_by(float a, float b) {
#ifdef TF_HOST
  return a / b;
#else
  const double inverse = 1.0 / static_cast<double>(b);
  if (static_cast<double>(static_cast<float>(inverse)) == inverse) return a * (1.0f / b);
  const float most = static_cast<float>(inverse * (1.0 - 0x1p-24));
  const float rest = static_cast<float>(inverse - static_cast<double>(most));
  return __fmaf_rn(a, most, a * rest);
#endif
}

// chunk: scale_of_divisor
// What makes a divisor one whose reciprocal has all its digits: of 0 and infinity nothing does.
TF_FN float scale_of_divisor(float b) {
  const float size = tf::abs(b);
  return size < 0x1p-64f ? 0x1p64f : size > 0x1p64f ? 0x1p-64f : 1.0f;
}

// chunk: Divisor
// What many are divided by, as two parts of its reciprocal. They have all their digits because the
// divisor is scaled; of 0 and infinity both are the reciprocal.
struct Divisor {
#ifdef TF_HOST
  float value;
  TF_FN Divisor() {}
  TF_FN Divisor(float b) : value(b) {}
#else
  float scale, most, rest;
  TF_FN Divisor() {}
  TF_FN Divisor(float b) : scale(tf::scale_of_divisor(b)) {
    const float divisor = b * scale, inverse = 1.0f / divisor;
    most = inverse * (1.0f - 0x1p-23f);
    const float left = __fmaf_rn(-divisor, most, 1.0f);
    rest = left != left ? inverse : left * inverse;
  }
#endif
};

// chunk: divided_by_row
// The same by what many a share, of which the parts are computed once.
TF_FN float divided_by_row(float a, const tf::Divisor& b) {
#ifdef TF_HOST
  return a / b.value;
#else
  const float scaled = a * b.scale;
  return __fmaf_rn(scaled, b.most, scaled * b.rest);
#endif
}

// chunk: div when complex
template <class T>
TF_FN tf::complex<T> div(tf::complex<T> a, tf::complex<T> b) {
  return a / b;
}

// chunk: shift_left
// A distance outside [0, width) shifts everything out.
template <class T>
TF_FN T shift_left(T a, T b) {
  constexpr int width = 8 * sizeof(T);
  return b < T(0) || b >= T(width) ? T(0) : T(static_cast<unsigned long long>(a) << b);
}

// chunk: shift_right
// Arithmetic: a distance outside [0, width) leaves only the sign.
template <class T>
TF_FN T shift_right(T a, T b) {
  constexpr int last = T(-1) < T(0) ? 8 * sizeof(T) - 1 : 8 * sizeof(T);
  const bool outside = b < T(0) || b >= T(last);
  if (outside && !(T(-1) < T(0))) return T(0);
  return T(a >> (outside ? last : int(b)));
}

// chunk: shift_right_zero
// Zeros come in from the left.
template <class T>
TF_FN T shift_right_zero(T a, T b) {
  constexpr int width = 8 * sizeof(T);
  constexpr unsigned long long mask = ~0ull >> (64 - width);
  return b < T(0) || b >= T(width) ? T(0) : T((static_cast<unsigned long long>(a) & mask) >> b);
}

// chunk: gcd
// The smallest integer has no absolute value; with it the sign is that of torch's Euclid.
template <class T>
TF_FN T gcd(T a, T b) {
  a = tf::abs(a);
  b = tf::abs(b);
  while (a != T(0)) {
    const T left = tf::fmod(b, a);
    b = a;
    a = left;
  }
  return b;
}

// chunk: wrapped
// An integer's bits as an unsigned one, whose sums and products wrap as torch's do: where those of signed
// ones overflow C++ knows no value, and a compiler takes x + 1 > x for true.
template <int BYTES>
struct Unsigned {
  using Type = unsigned;
};
template <>
struct Unsigned<8> {
  using Type = unsigned long long;
};
template <class T>
TF_FN typename Unsigned<sizeof(T)>::Type wrapped(T x) {
  return static_cast<typename Unsigned<sizeof(T)>::Type>(x);
}

// chunk: TF_WRAPPED
#define TF_WRAPPED(name, op)                                                                     \
  template <class A, class B>                                                                    \
  TF_FN auto name(A a, B b) -> decltype(a op b) {                                                \
    using T = decltype(a op b);                                                                  \
    return static_cast<T>(tf::wrapped(static_cast<T>(a)) op tf::wrapped(static_cast<T>(b)));     \
  }

// chunk: wrapped_add
TF_WRAPPED(wrapped_add, +)
// chunk: wrapped_sub
TF_WRAPPED(wrapped_sub, -)
// chunk: wrapped_mul
TF_WRAPPED(wrapped_mul, *)

// chunk: mul_rn add_rn
// Products and sums that the compiler does not contract into an FMA; other types cannot contract.
template <class T>
TF_FN T mul_rn(T a, T b) {
  return T(a * b);
}
template <class T>
TF_FN T add_rn(T a, T b) {
  return T(a + b);
}
#ifndef TF_HOST
TF_FN float mul_rn(float a, float b) { return __fmul_rn(a, b); }
TF_FN double mul_rn(double a, double b) { return __dmul_rn(a, b); }
TF_FN float add_rn(float a, float b) { return __fadd_rn(a, b); }
TF_FN double add_rn(double a, double b) { return __dadd_rn(a, b); }
#endif

// chunk: lerp_is_near
template <class T>
TF_FN bool lerp_is_near(T w) {
  return tf::abs(w) < T(0.5);
}

// chunk: lerp_is_near when complex
template <class T>
TF_FN bool lerp_is_near(tf::complex<T> w) {
  return w.re * w.re + w.im * w.im < T(0.25);
}

// chunk: lerp
// Two branches make both ends exact.
template <class T>
TF_FN T lerp(T start, T end, T w) {
  const T gap = end - start;
  return tf::lerp_is_near(w) ? start + w * gap : end - gap * (T(1) - w);
}

// chunk: order_key
// 32 bits that order as the values do: the zeros are equal, and NaN is above all. A GPU adds to any
// NaN the one of bits 0x7fffffff; the compiler must not leave out what adds nothing to a number.
TF_FN long long order_key(float x) {
#ifdef TF_HOST
  if (x != x) return 0x7fffffff;
  x += 0.0f;
#else
  asm("add.f32 %0, %0, 0f00000000;" : "+f"(x));
#endif
  const int b = static_cast<int>(tf::bits(x));
  return b ^ (b >> 31 & 0x7fffffff);
}
