// Functions of complex analysis, with the branch cuts and the care for cancellation of Kahan,
// "Branch Cuts for Complex Elementary Functions" (1987).

// chunk: abs when complex
template <class T>
TF_FN T abs(tf::complex<T> z) {
  return tf::hypot(z.re, z.im);
}

// chunk: exp when complex
template <class T>
TF_FN tf::complex<T> exp(tf::complex<T> z) {
  const T size = tf::exp(z.re);
  return {size * tf::cos(z.im), size * tf::sin(z.im)};
}

// chunk: log when complex
// Near |z| = 1 the real part comes from |z|^2 - 1, whose terms cancel exactly.
template <class T>
TF_FN tf::complex<T> log(tf::complex<T> z) {
  const T x = tf::abs(z.re), y = tf::abs(z.im), big = x > y ? x : y, small = x > y ? y : x;
  const T angle = tf::atan2(z.im, z.re);
  if (big > T(0.5) && big < T(2))
    return {T(0.5) * tf::log1p((big - T(1)) * (big + T(1)) + small * small), angle};
  return {tf::log(tf::hypot(x, y)), angle};
}

// chunk: log1p when complex
template <class T>
TF_FN tf::complex<T> log1p(tf::complex<T> z) {
  const T angle = tf::atan2(z.im, z.re + T(1));
  if (tf::abs(z.re) < T(0.5) && tf::abs(z.im) < T(0.5))
    return {T(0.5) * tf::log1p(z.re * (z.re + T(2)) + z.im * z.im), angle};
  return {tf::log(tf::hypot(z.re + T(1), z.im)), angle};
}

// chunk: expm1 when complex
template <class T>
TF_FN tf::complex<T> expm1(tf::complex<T> z) {
  const T half_sine = tf::sin(z.im * T(0.5));
  return {tf::expm1(z.re) * tf::cos(z.im) - T(2) * half_sine * half_sine,
          tf::exp(z.re) * tf::sin(z.im)};
}

// chunk: exp2 when complex
template <class T>
TF_FN tf::complex<T> exp2(tf::complex<T> z) {
  const T size = tf::exp2(z.re), angle = z.im * T(0.69314718055994530942);
  return {size * tf::cos(angle), size * tf::sin(angle)};
}

// chunk: log2 when complex
template <class T>
TF_FN tf::complex<T> log2(tf::complex<T> z) {
  return T(1.44269504088896340736) * tf::log(z);
}

// chunk: log10 when complex
template <class T>
TF_FN tf::complex<T> log10(tf::complex<T> z) {
  return T(0.43429448190325182765) * tf::log(z);
}

// chunk: sqrt when complex
template <class T>
TF_FN tf::complex<T> sqrt(tf::complex<T> z) {
  const T size = tf::sqrt(T(0.5) * (tf::abs(z.re) + tf::hypot(z.re, z.im)));
  if (size == T(0)) return {T(0), z.im};
  const T other = tf::abs(z.im) / (T(2) * size);
  if (z.re >= T(0)) return {size, tf::copysign(other, z.im)};
  return {other, tf::copysign(size, z.im)};
}

// chunk: rsqrt when complex
template <class T>
TF_FN tf::complex<T> rsqrt(tf::complex<T> z) {
  return tf::complex<T>(T(1)) / tf::sqrt(z);
}

// chunk: sinh when complex
template <class T>
TF_FN tf::complex<T> sinh(tf::complex<T> z) {
  return {tf::sinh(z.re) * tf::cos(z.im), tf::cosh(z.re) * tf::sin(z.im)};
}

// chunk: cosh when complex
template <class T>
TF_FN tf::complex<T> cosh(tf::complex<T> z) {
  return {tf::cosh(z.re) * tf::cos(z.im), tf::sinh(z.re) * tf::sin(z.im)};
}

// chunk: tanh when complex
// With t = tan(y), s = sinh(x), b = 1 + t^2: (sqrt(1 + s^2) b s + i t) / (1 + b s^2).
template <class T>
TF_FN tf::complex<T> tanh(tf::complex<T> z) {
  if (tf::abs(z.re) > T(40)) return {tf::copysign(T(1), z.re), tf::copysign(T(0), z.im)};
  const T t = tf::tan(z.im), s = tf::sinh(z.re), b = T(1) + t * t, scale = T(1) + b * s * s;
  return {tf::sqrt(T(1) + s * s) * b * s / scale, t / scale};
}

// chunk: sin when complex
template <class T>
TF_FN tf::complex<T> sin(tf::complex<T> z) {
  return {tf::sin(z.re) * tf::cosh(z.im), tf::cos(z.re) * tf::sinh(z.im)};
}

// chunk: cos when complex
template <class T>
TF_FN tf::complex<T> cos(tf::complex<T> z) {
  return {tf::cos(z.re) * tf::cosh(z.im), -(tf::sin(z.re) * tf::sinh(z.im))};
}

// chunk: tan when complex
// tan z = -i tanh(iz).
template <class T>
TF_FN tf::complex<T> tan(tf::complex<T> z) {
  const tf::complex<T> w = tf::tanh(tf::complex<T>(-z.im, z.re));
  return {w.im, -w.re};
}

// chunk: asin when complex
template <class T>
TF_FN tf::complex<T> asin(tf::complex<T> z) {
  const tf::complex<T> a = tf::sqrt(tf::complex<T>(T(1) - z.re, -z.im));
  const tf::complex<T> b = tf::sqrt(tf::complex<T>(T(1) + z.re, z.im));
  return {tf::atan2(z.re, a.re * b.re - a.im * b.im), tf::asinh(a.re * b.im - a.im * b.re)};
}

// chunk: acos when complex
template <class T>
TF_FN tf::complex<T> acos(tf::complex<T> z) {
  const tf::complex<T> a = tf::sqrt(tf::complex<T>(T(1) - z.re, -z.im));
  const tf::complex<T> b = tf::sqrt(tf::complex<T>(T(1) + z.re, z.im));
  return {T(2) * tf::atan2(a.re, b.re), tf::asinh(b.re * a.im - b.im * a.re)};
}

// chunk: asinh when complex
// asinh z = -i asin(iz).
template <class T>
TF_FN tf::complex<T> asinh(tf::complex<T> z) {
  const tf::complex<T> w = tf::asin(tf::complex<T>(-z.im, z.re));
  return {w.im, -w.re};
}

// chunk: acosh when complex
template <class T>
TF_FN tf::complex<T> acosh(tf::complex<T> z) {
  const tf::complex<T> a = tf::sqrt(tf::complex<T>(z.re - T(1), z.im));
  const tf::complex<T> b = tf::sqrt(tf::complex<T>(z.re + T(1), z.im));
  return {tf::asinh(a.re * b.re + a.im * b.im), T(2) * tf::atan2(a.im, b.re)};
}

// chunk: atanh when complex
// Re = log1p(4x / ((1 - x)^2 + y^2)) / 4, Im = atan2(2y, (1 - x)(1 + x) - y^2) / 2.
template <class T>
TF_FN tf::complex<T> atanh(tf::complex<T> z) {
  const T x = tf::abs(z.re), y2 = z.im * z.im;
  const T re = T(0.25) * tf::log1p(T(4) * x / ((T(1) - x) * (T(1) - x) + y2));
  const T im = T(0.5) * tf::atan2(T(2) * z.im, (T(1) - x) * (T(1) + x) - y2);
  return {tf::copysign(re, z.re), im};
}

// chunk: atan when complex
// atan z = -i atanh(iz).
template <class T>
TF_FN tf::complex<T> atan(tf::complex<T> z) {
  const tf::complex<T> w = tf::atanh(tf::complex<T>(-z.im, z.re));
  return {w.im, -w.re};
}

// chunk: pow when complex
template <class T>
TF_FN tf::complex<T> pow(tf::complex<T> a, tf::complex<T> b) {
  if (b == tf::complex<T>(T(0))) return {T(1), T(0)};
  if (a == tf::complex<T>(T(0))) return {T(0), T(0)};
  return tf::exp(b * tf::log(a));
}
