// Random numbers as a function of (seed, offset, index): the same for every schedule and recomputation.

// chunk: philox product
struct Philox {
  unsigned v[4];
};
struct Product {
  unsigned low, high;
};
// Both halves of one product: asked for each alone, the compiler multiplies twice.
TF_FN Product product(unsigned a, unsigned b) {
#ifdef TF_HOST
  const unsigned long long whole = static_cast<unsigned long long>(a) * b;
  return {static_cast<unsigned>(whole), static_cast<unsigned>(whole >> 32)};
#else
  Product p;
  asm("{ .reg .b64 whole; mul.wide.u32 whole, %2, %3; mov.b64 {%0, %1}, whole; }"
      : "=r"(p.low), "=r"(p.high)
      : "r"(a), "r"(b));
  return p;
#endif
}
// Philox4x32-10 (Salmon et al. 2011). Key: seed; counter: (offset, subsequence), low words first.
TF_FN Philox philox(unsigned long long seed, unsigned long long offset,
                    unsigned long long subsequence) {
  unsigned key0 = static_cast<unsigned>(seed), key1 = static_cast<unsigned>(seed >> 32);
  Philox c = {{static_cast<unsigned>(offset), static_cast<unsigned>(offset >> 32),
               static_cast<unsigned>(subsequence), static_cast<unsigned>(subsequence >> 32)}};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const Product a = tf::product(c.v[0], 0xD2511F53u), b = tf::product(c.v[2], 0xCD9E8D57u);
    c = {{b.high ^ c.v[1] ^ key0, b.low, a.high ^ c.v[3] ^ key1, a.low}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// chunk: philox_word
// The word of element index = start + rest: component index % 4 of subsequence index / 4.
// `start` is a multiple of 4, so that four lanes of a vector, whose `rest` is known to the compiler,
// are seen to be of one subsequence.
TF_FN unsigned philox_word(unsigned long long seed, unsigned long long offset,
                           unsigned long long start, unsigned long long rest) {
  const Philox random = tf::philox(seed, offset, start / 4 + rest / 4);
  const int k = static_cast<int>(rest % 4);
  const unsigned low = k & 1 ? random.v[1] : random.v[0], high = k & 1 ? random.v[3] : random.v[2];
  return k & 2 ? high : low;
}

// chunk: philox_within
// True where the element's word is one of `count` from `first` on, behind the last one from 0 on.
TF_FN bool philox_within(unsigned long long seed, unsigned long long offset,
                         unsigned long long start, unsigned long long rest, unsigned first,
                         unsigned count) {
  return tf::philox_word(seed, offset, start, rest) - first < count;
}

// chunk: philox_uniform philox_float in_range_of
// The float in (0, 1] of an element.
TF_FN float philox_float(unsigned long long seed, unsigned long long offset,
                         unsigned long long start, unsigned long long rest) {
  const unsigned word = tf::philox_word(seed, offset, start, rest);
  return __fmaf_rn(static_cast<float>(word), 0x1p-32f, 0x1p-33f);
}
// u in the range from `from` on: of a literal range from 0 to 1 it is u, bit by bit, as no u is -0.
template <class T>
TF_FN T in_range_of(T u, T range, T from) {
  return range == T(1) && from == T(0) ? u : tf::add_rn(tf::mul_rn(u, range), from);
}
template <class T>
struct PhiloxUniform;
// f32: 1 becomes 0, then the range is applied.
template <>
struct PhiloxUniform<float> {
  TF_FN static float apply(unsigned long long seed, unsigned long long offset,
                           unsigned long long start, unsigned long long rest, double from,
                           double to) {
    const float u = tf::philox_float(seed, offset, start, rest);
    const float low = static_cast<float>(from), range = static_cast<float>(to - from);
    return tf::in_range_of(u == 1.0f ? 0.0f : u, range, low);
  }
};
// f64: 53 bits of a pair of words; two elements share one counter.
template <>
struct PhiloxUniform<double> {
  TF_FN static double apply(unsigned long long seed, unsigned long long offset,
                            unsigned long long start, unsigned long long rest, double from,
                            double to) {
    const Philox random = tf::philox(seed, offset, start / 2 + rest / 2);
    const unsigned low = rest % 2 ? random.v[2] : random.v[0];
    const unsigned high = rest % 2 ? random.v[3] : random.v[1];
    const unsigned long long z = low ^ static_cast<unsigned long long>(high) << 21;
    const double u = tf::add_rn(static_cast<double>(z) * 0x1p-53, 0x1p-54);
    return tf::add_rn(tf::mul_rn(u == 1.0 ? 0.0 : u, to - from), from);
  }
};
// 16-bit types: scale in f32, round; a result that reached `to` becomes `from`.
template <class T>
struct PhiloxUniform {
  TF_FN static float apply(unsigned long long seed, unsigned long long offset,
                           unsigned long long start, unsigned long long rest, double from,
                           double to) {
    const float u = tf::philox_float(seed, offset, start, rest);
    const float low = tf::round_to<T>(static_cast<float>(from));
    const float high = tf::round_to<T>(static_cast<float>(to));
    const float range = static_cast<float>(to - from);
    const float x = tf::round_to<T>(tf::in_range_of(u, range, static_cast<float>(from)));
    return x == high ? low : x;
  }
};
// The value, in the compute type, of element start + rest of a contiguous random tensor of type T.
template <class T>
TF_FN auto philox_uniform(unsigned long long seed, unsigned long long offset,
                          unsigned long long start, unsigned long long rest, double from,
                          double to) {
  return PhiloxUniform<T>::apply(seed, offset, start, rest, from, to);
}
