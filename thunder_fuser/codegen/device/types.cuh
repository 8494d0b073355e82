// Element types as they lie in memory, and the limits of arithmetic types.

// chunk: TF_FN
#define TF_FN __device__ __forceinline__

// chunk: i8
using i8 = signed char;
// chunk: u8
using u8 = unsigned char;
// chunk: i64
using i64 = long long;

// chunk: bits from_bits
TF_FN unsigned bits(float x) {
#ifdef TF_HOST
  unsigned b;
  __builtin_memcpy(&b, &x, 4);
  return b;
#else
  return __float_as_uint(x);
#endif
}
TF_FN unsigned long long bits(double x) {
#ifdef TF_HOST
  unsigned long long b;
  __builtin_memcpy(&b, &x, 8);
  return b;
#else
  return static_cast<unsigned long long>(__double_as_longlong(x));
#endif
}
TF_FN float from_bits(unsigned b) {
#ifdef TF_HOST
  float x;
  __builtin_memcpy(&x, &b, 4);
  return x;
#else
  return __uint_as_float(b);
#endif
}
TF_FN double from_bits(unsigned long long b) {
#ifdef TF_HOST
  double x;
  __builtin_memcpy(&x, &b, 8);
  return x;
#else
  return __longlong_as_double(static_cast<long long>(b));
#endif
}

// chunk: bf16
struct bf16 {
  unsigned short data;
};

// chunk: f16
struct f16 {
  unsigned short data;
};

// chunk: f8e4m3
struct f8e4m3 {
  unsigned char data;
};

// chunk: f8e5m2
struct f8e5m2 {
  unsigned char data;
};

// chunk: complex
template <class T>
struct alignas(2 * sizeof(T)) complex {
  T re, im;
  complex() = default;
  TF_FN constexpr complex(T re, T im = T(0)) : re(re), im(im) {}
  TF_FN explicit operator bool() const { return re != T(0) || im != T(0); }
};
template <class T>
TF_FN complex<T> operator-(complex<T> a) {
  return {-a.re, -a.im};
}
template <class T>
TF_FN complex<T> operator+(complex<T> a, complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
TF_FN complex<T> operator-(complex<T> a, complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
TF_FN complex<T> operator*(complex<T> a, complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
TF_FN complex<T> operator*(T a, complex<T> b) {
  return {a * b.re, a * b.im};
}
template <class T>
TF_FN bool operator==(complex<T> a, complex<T> b) {
  return a.re == b.re && a.im == b.im;
}
template <class T>
TF_FN bool operator!=(complex<T> a, complex<T> b) {
  return !(a == b);
}
// Division scaled by the larger part of the divisor (Smith 1962), so that squares do not overflow.
template <class T>
TF_FN complex<T> operator/(complex<T> a, complex<T> b) {
  const T re = b.re < T(0) ? -b.re : b.re, im = b.im < T(0) ? -b.im : b.im;
  if (re >= im) {
    if (re == T(0)) return {a.re / re, a.im / re};
    const T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const T ratio = b.re / b.im, scale = T(1) / (b.re * ratio + b.im);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

// chunk: Mask drawn
// A bit for each lane of so many vectors, of which each is set once.
template <int VECTORS, int LANES>
struct Mask {
  unsigned words[(VECTORS * LANES + 31) / 32] = {};
  struct Bit {
    unsigned& word;
    int place;
    TF_FN void operator=(bool bit) { word |= static_cast<unsigned>(bit) << place; }
    TF_FN explicit operator bool() const { return word >> place & 1; }
  };
  struct Vector {
    unsigned* words;
    int first;
    TF_FN Bit operator[](int lane) { return {words[(first + lane) / 32], (first + lane) % 32}; }
  };
  TF_FN Vector operator[](int vector) { return {words, vector * LANES}; }
};
// The bits that `draw` has for each vector, two vectors at a time: drawn all at once, those of a row
// take more registers than all that follows.
template <int VECTORS, int LANES, class Draw>
TF_FN Mask<VECTORS, LANES> drawn(Draw draw) {
  constexpr int OF_WORD = 32 / LANES;
  Mask<VECTORS, LANES> mask;
#pragma unroll
  for (int first = 0; first < VECTORS; first += OF_WORD) {
    unsigned word = 0;
#pragma unroll 2
    for (int k = 0; k < OF_WORD && first + k < VECTORS; ++k) word |= draw(first + k) << k * LANES;
    mask.words[first / OF_WORD] = word;
  }
  return mask;
}

// chunk: infinity nan
template <class T>
TF_FN T infinity();
template <>
TF_FN float infinity<float>() {
  return tf::from_bits(0x7f800000u);
}
template <>
TF_FN double infinity<double>() {
  return tf::from_bits(0x7ff0000000000000ull);
}
template <class T>
TF_FN T nan() {
  return tf::infinity<T>() - tf::infinity<T>();
}

// chunk: lowest highest
// The identities of max and min over T.
template <class T>
struct Limits {
  static constexpr int width = 8 * sizeof(T) - 1;
  static constexpr bool is_signed = T(-1) < T(0);
  TF_FN static T highest() {
    return is_signed ? T(~(1ull << width)) : T(~0ull);
  }
  TF_FN static T lowest() { return is_signed ? T(1ull << width) : T(0); }
};
template <>
struct Limits<bool> {
  TF_FN static bool highest() { return true; }
  TF_FN static bool lowest() { return false; }
};
template <>
struct Limits<float> {
  TF_FN static float highest() { return tf::infinity<float>(); }
  TF_FN static float lowest() { return -tf::infinity<float>(); }
};
template <>
struct Limits<double> {
  TF_FN static double highest() { return tf::infinity<double>(); }
  TF_FN static double lowest() { return -tf::infinity<double>(); }
};
template <class T>
TF_FN T lowest() {
  return Limits<T>::lowest();
}
template <class T>
TF_FN T highest() {
  return Limits<T>::highest();
}
