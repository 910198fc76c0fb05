// tile_loops.h on 8 rows: a vector holds four columns of all of them.
#include <immintrin.h>

#include "kernels/tile_loops.h"

namespace exo::kernels {
namespace {

#define EXO_INLINE __attribute__((always_inline)) static inline

constexpr std::size_t kVector = 32;

EXO_INLINE __m256i load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

EXO_INLINE __m128i load_bytes(const std::byte* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}

// `v` moved by kShift bits, to the right if positive, and the bits of `mask` kept.
template <int kShift>
EXO_INLINE __m256i pick(__m256i v, __m256i mask) {
  if constexpr (kShift > 0) v = _mm256_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm256_slli_epi16(v, -kShift);
  return _mm256_and_si256(v, mask);
}

// Adds the plane of single bits at `p` to the codes, as bit kTo.
template <int kTo>
EXO_INLINE void add_bit_plane(const std::byte* p, __m256i (&v)[kQuads]) {
  const __m256i high = load(p), bit = _mm256_set1_epi8(1 << kTo);
  v[0] = _mm256_or_si256(v[0], pick<0 - kTo>(high, bit));
  v[1] = _mm256_or_si256(v[1], pick<1 - kTo>(high, bit));
  v[2] = _mm256_or_si256(v[2], pick<2 - kTo>(high, bit));
  v[3] = _mm256_or_si256(v[3], pick<3 - kTo>(high, bit));
  v[4] = _mm256_or_si256(v[4], pick<4 - kTo>(high, bit));
  v[5] = _mm256_or_si256(v[5], pick<5 - kTo>(high, bit));
  v[6] = _mm256_or_si256(v[6], pick<6 - kTo>(high, bit));
  v[7] = _mm256_or_si256(v[7], pick<7 - kTo>(high, bit));
}

template <int kBits>
EXO_INLINE void load_codes(const std::byte* p, __m256i (&v)[kQuads]) {
  if constexpr (kBits == 8) {
    for (std::size_t i = 0; i < 8; ++i) v[i] = load(p + kVector * i);
  } else if constexpr (kBits >= 4) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (std::size_t i = 0; i < 4; ++i) {
      const __m256i low = load(p + kVector * i);
      v[2 * i] = pick<0>(low, mask);
      v[2 * i + 1] = pick<4>(low, mask);
    }
    if constexpr (kBits == 5) add_bit_plane<4>(p + 4 * kVector, v);
    if constexpr (kBits == 6) {
      const __m256i bits = _mm256_set1_epi8(48);
      for (std::size_t i = 0; i < 2; ++i) {
        const __m256i high = load(p + kVector * (4 + i));
        v[4 * i] = _mm256_or_si256(v[4 * i], pick<-4>(high, bits));
        v[4 * i + 1] = _mm256_or_si256(v[4 * i + 1], pick<-2>(high, bits));
        v[4 * i + 2] = _mm256_or_si256(v[4 * i + 2], pick<0>(high, bits));
        v[4 * i + 3] = _mm256_or_si256(v[4 * i + 3], pick<2>(high, bits));
      }
    }
  } else {
    const __m256i mask = _mm256_set1_epi8(3);
    for (std::size_t i = 0; i < 2; ++i) {
      const __m256i low = load(p + kVector * i);
      v[4 * i] = pick<0>(low, mask);
      v[4 * i + 1] = pick<2>(low, mask);
      v[4 * i + 2] = pick<4>(low, mask);
      v[4 * i + 3] = pick<6>(low, mask);
    }
    if constexpr (kBits == 3) add_bit_plane<2>(p + 2 * kVector, v);
  }
}

struct Simd {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr std::size_t kRows = 8;
  static constexpr int kMostRows = 4;

  EXO_INLINE Floats zero() { return _mm256_setzero_ps(); }
  EXO_INLINE Floats set1(float x) { return _mm256_set1_ps(x); }
  EXO_INLINE Ints set1_int(int x) { return _mm256_set1_epi32(x); }
  EXO_INLINE Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  EXO_INLINE Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  EXO_INLINE Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  EXO_INLINE Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  EXO_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  EXO_INLINE Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
  EXO_INLINE void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }

  EXO_INLINE Floats load_numbers(const std::byte* p, FloatType type) {
    if (type == FloatType::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    if (type == FloatType::kF16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  EXO_INLINE void load_bf16_pairs(const std::byte* p, Floats& first, Floats& second) {
    const Ints pair = load(p);
    first = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
    second = _mm256_castsi256_ps(
        _mm256_and_si256(pair, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  EXO_INLINE Floats unsigned_bytes(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_bytes(p)));
  }
  EXO_INLINE Floats signed_bytes(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_bytes(p)));
  }
  EXO_INLINE void nibbles(const std::byte* p, Floats& low, Floats& high) {
    const Ints v = _mm256_cvtepu8_epi32(load_bytes(p));
    low = _mm256_cvtepi32_ps(_mm256_and_si256(v, _mm256_set1_epi32(15)));
    high = _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 4));
  }
  // 2^(byte − kBias): the byte as an exponent, or for subnormal numbers a bit of the mantissa.
  template <int kBias>
  EXO_INLINE Floats power_of_two(const std::byte* p) {
    constexpr int kShift = kBias - 127;  // 0 or 1
    const Ints byte = _mm256_cvtepu8_epi32(load_bytes(p));
    const Ints normal = _mm256_slli_epi32(_mm256_sub_epi32(byte, _mm256_set1_epi32(kShift)), 23);
    const Ints small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00400000 >> kShift), byte);
    const Ints is_normal = _mm256_cmpgt_epi32(byte, _mm256_set1_epi32(kShift));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, is_normal));
  }
  // E4M3's sign and other seven bits, moved, are an f16 that is 256 times too small.
  EXO_INLINE Floats float8_over_256(const std::byte* p) {
    const __m128i byte = _mm_cvtepu8_epi16(load_bytes(p));
    const __m128i moved = _mm_srai_epi16(_mm_slli_epi16(byte, 8), 1);
    return _mm256_cvtph_ps(_mm_and_si128(moved, _mm_set1_epi16(static_cast<short>(0xbf80))));
  }
  EXO_INLINE void float8_over_256(const std::byte* p, Floats (&values)[4]) {
    const Ints v = load(p), bits = _mm256_set1_epi16(static_cast<short>(0xbf80));
    const Ints even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(v, 8), 1), bits);
    const Ints odd = _mm256_and_si256(_mm256_srai_epi16(v, 1), bits);
    values[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(even));
    values[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1));
    values[2] = _mm256_cvtph_ps(_mm256_castsi256_si128(odd));
    values[3] = _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1));
  }
  EXO_INLINE Floats set1_pair(const float* p) {
    double pair;
    __builtin_memcpy(&pair, p, 8);
    return _mm256_castpd_ps(_mm256_set1_pd(pair));
  }
  // Each lane of `v` twice.
  EXO_INLINE void twice(Floats v, Floats& low, Floats& high) {
    low = _mm256_permutevar8x32_ps(v, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0));
    high = _mm256_permutevar8x32_ps(v, _mm256_set_epi32(7, 7, 6, 6, 5, 5, 4, 4));
  }
  // The sums of neighbouring lanes of both.
  EXO_INLINE Floats add_pairs(Floats low, Floats high) {
    const Floats sums = _mm256_hadd_ps(low, high);  // the halves of low and high take turns
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(sums), 0xd8));
  }

  // Codes of 8 bits and table values are signed here, since maddubs adds two products in 16 bits:
  // 7-bit codes cannot overflow them, and of signed bytes 128·127·2 < 2¹⁵.
  template <typename F>
  static constexpr bool is_signed() {
    return F::kBits == 8 || F::kTable;
  }
  // What load_values has added to a value.
  template <typename F>
  static constexpr int offset() {
    if (F::kBits == 8) return F::kKind == Kind::kAffine ? -128 : 0;
    return F::kKind == Kind::kSymmetric ? 1 << (F::kBits - 1) : 0;
  }
  template <typename F>
  EXO_INLINE void load_values(const std::byte* p, Ints (&v)[kQuads]) {
    load_codes<F::kBits>(p, v);
    if constexpr (F::kBits == 8) {
      const Ints flip = _mm256_set1_epi8(static_cast<char>(0x80));
      for (Ints& quad : v) quad = _mm256_xor_si256(quad, flip);
    } else if constexpr (F::kTable) {
      const auto* values = F::kKind == Kind::kNonlinear ? kNonlinearValues : kFloat4Doubled;
      const Ints table =
          _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
      for (Ints& quad : v) quad = _mm256_shuffle_epi8(table, quad);
    }
  }
  template <typename F>
  EXO_INLINE Ints add_dot(Ints sum, Ints values, const std::int8_t* q) {
    int word;
    __builtin_memcpy(&word, q, 4);
    Ints x = _mm256_set1_epi32(word);
    if constexpr (is_signed<F>()) {
      x = _mm256_sign_epi8(x, values);
      values = _mm256_abs_epi8(values);
    }
    const Ints pairs = _mm256_maddubs_epi16(values, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  template <typename F, int kByte>
  EXO_INLINE Floats value_of_byte(Ints v) {
    if constexpr (is_signed<F>()) {
      const Ints value = _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * kByte), 24);
      return _mm256_cvtepi32_ps(_mm256_sub_epi32(value, _mm256_set1_epi32(offset<F>())));
    }
    const Ints code = _mm256_and_si256(_mm256_srli_epi32(v, 8 * kByte), _mm256_set1_epi32(255));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(offset<F>())));
  }
};

}  // namespace

namespace avx2 {

TileKernel* tile_kernel(const Encoding& encoding, bool is_fast) {
  return kernel_of<Simd>(encoding, is_fast);
}

void quantize_row(const float* x, std::size_t n, std::size_t padded, std::size_t group,
                  const QuantizedRow& out) {
  const __m256i absolute = _mm256_set1_epi32(0x7fffffff);
  for (std::size_t begin = 0, g = 0; begin < padded; begin += group, ++g) {
    __m256 v[8];  // a group has 16, 32 or 64 columns
    const std::size_t vectors = group / 8;
    __m256i max_bits = _mm256_setzero_si256();
    for (std::size_t i = 0; i < vectors; ++i) {
      const std::size_t at = begin + 8 * i;
      alignas(32) float tail[8] = {};
      for (std::size_t k = 0; k < 8 && at + 8 > n && at + k < n; ++k) tail[k] = x[at + k];
      v[i] = at + 8 <= n ? _mm256_loadu_ps(x + at) : _mm256_load_ps(tail);
      max_bits = _mm256_max_epu32(max_bits, _mm256_and_si256(_mm256_castps_si256(v[i]), absolute));
    }
    alignas(32) unsigned lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), max_bits);
    unsigned bits = 0;
    for (const unsigned lane : lanes) bits = bits > lane ? bits : lane;
    float max;
    __builtin_memcpy(&max, &bits, 4);
    const bool usable = bits < 0x7f800000U && max > 1e-30F;
    const __m256 inverse = _mm256_set1_ps(usable ? 127.0F / max : 0.0F);
    int sum = 0;
    for (std::size_t i = 0; i < vectors; ++i) {
      alignas(32) int q[8] = {};
      if (usable)
        _mm256_store_si256(reinterpret_cast<__m256i*>(q),
                           _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)));
      for (std::size_t k = 0; k < 8; ++k) {
        out.q[begin + 8 * i + k] = static_cast<std::int8_t>(q[k]);
        sum += q[k];
      }
    }
    const float scale = bits >= 0x7f800000U ? __builtin_nanf("") : usable ? max / 127.0F : 0.0F;
    out.scale[g] = scale;
    out.code_sum[g] = sum;
    out.sum[g] = scale * static_cast<float>(sum);
  }
}

#undef EXO_INLINE

}  // namespace avx2
}  // namespace exo::kernels
