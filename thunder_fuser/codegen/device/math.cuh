// Functions of real analysis, for float and double: the device library's, on the host the C library's.

// chunk: TF_LIBM
#ifdef TF_HOST
#define TF_LIBM(name)                                                       \
  TF_FN float name(float x) { return __builtin_##name##f(x); }              \
  TF_FN double name(double x) { return __builtin_##name(x); }
#else
#define TF_LIBM(name)                                                       \
  TF_FN float name(float x) { return ::name##f(x); }                        \
  TF_FN double name(double x) { return ::name(x); }
#endif

// chunk: TF_LIBM2
#ifdef TF_HOST
#define TF_LIBM2(name)                                                      \
  TF_FN float name(float a, float b) { return __builtin_##name##f(a, b); }  \
  TF_FN double name(double a, double b) { return __builtin_##name(a, b); }
#else
#define TF_LIBM2(name)                                                      \
  TF_FN float name(float a, float b) { return ::name##f(a, b); }            \
  TF_FN double name(double a, double b) { return ::name(a, b); }
#endif

// chunk: exp
TF_LIBM(exp)
// chunk: exp2
TF_LIBM(exp2)
// chunk: expm1
TF_LIBM(expm1)
// chunk: log
TF_LIBM(log)
// chunk: log2
TF_LIBM(log2)
// chunk: log10
TF_LIBM(log10)
// chunk: log1p
TF_LIBM(log1p)
// chunk: sqrt
TF_LIBM(sqrt)
// chunk: sin
TF_LIBM(sin)
// chunk: cos
TF_LIBM(cos)
// chunk: tan
TF_LIBM(tan)
// chunk: asin
TF_LIBM(asin)
// chunk: acos
TF_LIBM(acos)
// chunk: atan
TF_LIBM(atan)
// chunk: sinh
TF_LIBM(sinh)
// chunk: cosh
TF_LIBM(cosh)
// chunk: tanh
TF_LIBM(tanh)
// chunk: near_tanh
// Of |x| < 0.6. CUDA 13's tanhf takes this polynomial there, whose constants and order are those of its
// SASS, so that both give the same bits. Adding 0 keeps the sign of -0.
TF_FN float near_tanh(float x) {
#ifdef TF_HOST
  return __builtin_tanhf(x);
#else
  const float square = x * x;
  float slope = __fmaf_rn(0x1.01e104p-6f, square, -0x1.ac795cp-5f);
  slope = __fmaf_rn(slope, square, 0x1.10b282p-3f);
  slope = __fmaf_rn(slope, square, -0x1.5553dap-2f);
  return __fmaf_rn(x, __fmaf_rn(slope, square, 0.0f), x);
#endif
}
// chunk: asinh
TF_LIBM(asinh)
// chunk: acosh
TF_LIBM(acosh)
// chunk: atanh
TF_LIBM(atanh)
// chunk: erf
TF_LIBM(erf)
// chunk: erfc
TF_LIBM(erfc)
// chunk: lgamma
TF_LIBM(lgamma)
// chunk: atan2
TF_LIBM2(atan2)
// chunk: hypot
TF_LIBM2(hypot)
// chunk: copysign
TF_LIBM2(copysign)
// chunk: nextafter
TF_LIBM2(nextafter)

// chunk: rsqrt
#ifdef TF_HOST
TF_FN float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
TF_FN double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
#else
TF_LIBM(rsqrt)
#endif

// chunk: erfinv erfcinv erfcinv_tail erfinv_center
#ifdef TF_HOST
// The root y of erfc(y) = q, 0 < q <= 1/2: Winitzki's closed form, then Newton's iteration on
// log erfc, which is nearly a parabola. The first y is one whose erfc does not underflow.
TF_FN double erfcinv_tail(double q) {
  const double a = 0.147, log_term = __builtin_log(q * (2 - q));
  const double b = 2 / (3.14159265358979323846 * a) + log_term / 2;
  double y = __builtin_sqrt(__builtin_sqrt(b * b - log_term / a) - b);
  if (y > 26.5) y = 26.5;
  for (int k = 0; k < 5; ++k) {
    const double value = __builtin_erfc(y), slope = 1.12837916709551257390 * __builtin_exp(-y * y);
    y += value / slope * __builtin_log(value / q);
  }
  return y;
}
// The root of erf(y) = x, |x| < 1/2, by Halley's iteration: 1 - |x| would lose the digits of x.
TF_FN double erfinv_center(double x) {
  double y = 0.88622692545275801365 * x;
  for (int k = 0; k < 5; ++k) {
    const double step = (__builtin_erf(y) - x) / (1.12837916709551257390 * __builtin_exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}
TF_FN double erfcinv(double q) {
  if (q == 0) return tf::infinity<double>();
  if (q == 2) return -tf::infinity<double>();
  if (!(q > 0 && q < 2)) return tf::nan<double>();
  if (q > 0.5 && q < 1.5) return tf::erfinv_center(1 - q);
  return q > 1 ? -tf::erfcinv_tail(2 - q) : tf::erfcinv_tail(q);
}
TF_FN double erfinv(double x) {
  const double size = __builtin_fabs(x);
  return size < 0.5 ? tf::erfinv_center(x) : __builtin_copysign(tf::erfcinv(1 - size), x);
}
TF_FN float erfcinv(float q) { return static_cast<float>(tf::erfcinv(static_cast<double>(q))); }
TF_FN float erfinv(float x) { return static_cast<float>(tf::erfinv(static_cast<double>(x))); }
#else
TF_LIBM(erfcinv)
TF_LIBM(erfinv)
#endif

// chunk: ndtri
// The quantile of the normal distribution.
template <class T>
TF_FN T ndtri(T p) {
  return T(-1.41421356237309504880) * tf::erfcinv(T(2) * p);
}

// chunk: digamma
// Reflection below 0, recurrence up to 10, asymptotic series (Abramowitz and Stegun 6.3.5 to 6.3.18).
TF_FN double digamma(double x) {
  if (x == 0) return tf::copysign(tf::infinity<double>(), -x);
  double result = 0;
  if (x < 0) {
    if (x == tf::trunc(x)) return tf::nan<double>();
    result = -3.14159265358979323846 / tf::tan(3.14159265358979323846 * (x - tf::trunc(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  const double far = 1. / 132 - z * (691. / 32760 - z / 12);
  const double series = z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z * far))));
  return result + tf::log(x) - 0.5 / x - series;
}
TF_FN float digamma(float x) { return static_cast<float>(tf::digamma(static_cast<double>(x))); }

// chunk: nextafter_in
// The neighbour of a in the type it has in memory.
template <class Stored, class T>
struct NextAfter {
  TF_FN static T apply(T a, T b) { return tf::nextafter(a, b); }
};
template <class Stored, class T>
TF_FN T nextafter_in(T a, T b) {
  return NextAfter<Stored, T>::apply(a, b);
}

// chunk: nextafter_16
// Stepping the bits of a sign-and-magnitude number by one goes to its neighbour.
template <class Stored>
TF_FN float nextafter_16(float a, float b) {
  if (a != a || b != b) return tf::nan<float>();
  if (a == b) return b;
  Stored x = tf::convert<Stored>(a);
  if (a == 0) {
    x.data = b > 0 ? 0x0001 : 0x8001;
  } else {
    x.data += (a < b) == (a > 0) ? 1 : -1;
  }
  return tf::convert<float>(x);
}

// chunk: nextafter_in when bf16
template <>
struct NextAfter<tf::bf16, float> {
  TF_FN static float apply(float a, float b) { return tf::nextafter_16<tf::bf16>(a, b); }
};

// chunk: nextafter_in when f16
template <>
struct NextAfter<tf::f16, float> {
  TF_FN static float apply(float a, float b) { return tf::nextafter_16<tf::f16>(a, b); }
};

// chunk: libm_pow
#ifdef TF_HOST
TF_FN float libm_pow(float a, float b) { return __builtin_powf(a, b); }
TF_FN double libm_pow(double a, double b) { return __builtin_pow(a, b); }
#else
TF_FN float libm_pow(float a, float b) { return ::powf(a, b); }
TF_FN double libm_pow(double a, double b) { return ::pow(a, b); }
#endif

// chunk: pow floating_pow
// With a literal exponent of the first lines nothing but that line is left of it. C's pow says that
// -0 and -inf count as positive under an exponent of 1/2; adding 0 makes the zero positive.
template <class T>
TF_FN T floating_pow(T a, T b) {
  if (b == T(1)) return a;
  if (b == T(2)) return a * a;
  if (b == T(3)) return a * a * a;
  if (b == T(-1)) return T(1) / a;
  if (b == T(0.5)) return a == -tf::infinity<T>() ? tf::infinity<T>() : tf::sqrt(a + T(0));
  if (b == T(-0.5)) return a == -tf::infinity<T>() ? T(0) : tf::rsqrt(a + T(0));
  return tf::libm_pow(a, b);
}
TF_FN float pow(float a, float b) { return tf::floating_pow(a, b); }
TF_FN double pow(double a, double b) { return tf::floating_pow(a, b); }
// Integers wrap; a negative exponent truncates the reciprocal to 0, 1 or -1.
template <class T>
TF_FN T pow(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
  unsigned long long result = 1, base = static_cast<unsigned long long>(a);
  for (; b != T(0); b = T(b / 2), base *= base)
    if (b % 2 != 0) result *= base;
  return T(result);
}

// chunk: TF_FAST
// Approximations by the hardware, for f32 values that end in a 16-bit float; exact on the host.
#ifdef TF_HOST
#define TF_FAST(name, exact, instruction)                                   \
  TF_FN float name(float x) { return exact; }
#else
#define TF_FAST(name, exact, instruction)                                   \
  TF_FN float name(float x) {                                               \
    float y;                                                                \
    asm(instruction " %0, %1;" : "=f"(y) : "f"(x));                         \
    return y;                                                               \
  }
#endif

// chunk: fast_exp2
TF_FAST(fast_exp2, __builtin_exp2f(x), "ex2.approx.ftz.f32")
// chunk: fast_log2
TF_FAST(fast_log2, __builtin_log2f(x), "lg2.approx.ftz.f32")
// chunk: fast_reciprocal
TF_FAST(fast_reciprocal, 1.0f / x, "rcp.approx.ftz.f32")
// chunk: fast_sqrt
TF_FAST(fast_sqrt, __builtin_sqrtf(x), "sqrt.approx.ftz.f32")

// chunk: reciprocal_from_one
// Of x >= 1 or NaN, within a unit of the last place. A quotient asks where its divisor lies and calls
// a function for some; of these a quarter has a normal reciprocal, infinity's is 0.
template <class T>
TF_FN T reciprocal_from_one(T x) {
  return T(1) / x;
}
#ifndef TF_HOST
TF_FN float reciprocal_from_one(float x) { return tf::fast_reciprocal(x * 0.25f) * 0.25f; }
#endif

// chunk: fast_exp
// Within 2^-17: the product is rounded, and it is at most 128.
TF_FN float fast_exp(float x) { return tf::fast_exp2(x * 1.44269504f); }

// chunk: finite
// The nearest finite number; NaN stays.
TF_FN float finite(float x) {
  return tf::minimum(tf::maximum(x, -3.402823466e38f), 3.402823466e38f);
}

// chunk: fast_divide
// Within 2 units of the last place, over the full range of the divisor.
TF_FN float fast_divide(float a, float b) {
#ifdef TF_HOST
  return a / b;
#else
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#endif
}

// chunk: fast_divided_by_row
// The same by what many a share, whose reciprocal is taken once: a quotient asks each time where the
// divisor lies, and scales both.
TF_FN float fast_divided_by_row(float a, float b) {
#ifdef TF_HOST
  return a / b;
#else
  const float scale = tf::scale_of_divisor(b);
  return (a * scale) * tf::fast_reciprocal(b * scale);
#endif
}

// chunk: fast_divided_by_row when Divisor
TF_FN float fast_divided_by_row(float a, const tf::Divisor& b) {
#ifdef TF_HOST
  return a / b.value;
#else
  return (a * b.scale) * b.most;
#endif
}

// chunk: fast_log1p
// Within 2^-16: the logarithm is off by 2^-22 near 1, which is little of what is above 1 / 32; below
// that four terms of the series.
TF_FN float fast_log1p(float x) {
  const float far = tf::fast_log2(1.0f + x) * 0.693147181f;
  const float slope = __fmaf_rn(__fmaf_rn(__fmaf_rn(-0.25f, x, 0.333333333f), x, -0.5f), x, 1.0f);
  return tf::abs(x) < 0.03125f ? x * slope : far;
}

// chunk: fast_tanh
// Within 2^-14: 1 - 2 / (1 + exp(2x)), and x where that cancels.
TF_FN float fast_tanh(float x) {
  const float inverse = tf::fast_reciprocal(1.0f + tf::fast_exp2(x * 2.88539008f));
  return tf::abs(x) < 0.01f ? x : __fmaf_rn(-2.0f, inverse, 1.0f);
}

// chunk: ndtr
// The share of a normal distribution below x. In f32 it is within 2^-23, and within 2^-15 of itself down to
// x = -5: 2^y or 1 - 2^y with y = |x| * p(|x|) - 1, fitted up to 5, which falls from there on.
template <class T>
TF_FN T ndtr(T x) {
  return T(0.5) * tf::erfc(x * T(-0.70710678118654752440));
}
TF_FN float ndtr(float x) {
  const float size = tf::abs(x);
  float slope = __fmaf_rn(-0x1.20c28ep-20f, size, 0x1.2daf06p-16f);
  slope = __fmaf_rn(slope, size, -0x1.63eeccp-14f);
  slope = __fmaf_rn(slope, size, -0x1.88cc9cp-12f);
  slope = __fmaf_rn(slope, size, 0x1.e20686p-8f);
  slope = __fmaf_rn(slope, size, -0x1.af89a2p-5f);
  slope = __fmaf_rn(slope, size, -0x1.d62d5ap-2f);
  slope = __fmaf_rn(slope, size, -0x1.26af20p+0f);
  const float beyond = tf::fast_exp2(__fmaf_rn(slope, size, -1.0f));
  return x < 0.0f ? beyond : 1.0f - beyond;
}

// chunk: fast_erf
// Within 2^-14, and 2^-22 of 1: (1 - 1 / e) / (1 + 1 / e) with e = 2^(x * p(x * x)), fitted up to 4.1,
// from where on it is 1; and the tangent where that cancels.
TF_FN float fast_erf(float x) {
  const float size = tf::abs(x), square = tf::minimum(x * x, 16.81f);
  float slope = __fmaf_rn(0x1.ec7480p-22f, square, -0x1.21c0f8p-16f);
  slope = __fmaf_rn(slope, square, 0x1.0f6d94p-12f);
  slope = __fmaf_rn(slope, square, -0x1.d9491ap-10f);
  slope = __fmaf_rn(slope, square, -0x1.16eedep-11f);
  slope = __fmaf_rn(slope, square, 0x1.2fa28cp-2f);
  slope = __fmaf_rn(slope, square, 0x1.a0be90p+1f);
  const float inverse = tf::fast_reciprocal(1.0f + tf::fast_exp2(size * slope));
  const float far = tf::copysign(__fmaf_rn(-2.0f, inverse, 1.0f), x);
  return size < 0.005f ? x * 1.12837917f : far;
}
