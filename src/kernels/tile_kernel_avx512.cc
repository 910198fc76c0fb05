// tile_loops.h on 16 rows: a vector holds four columns of all of them.
#include <immintrin.h>

#include "kernels/tile_loops.h"

namespace exo::kernels {
namespace {

#define EXO_INLINE __attribute__((always_inline)) static inline

EXO_INLINE __m512i load(const std::byte* p) { return _mm512_loadu_si512(p); }

EXO_INLINE __m128i load_bytes(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

template <int kShift>
EXO_INLINE __m512i right(__m512i v) {
  return kShift == 0 ? v : _mm512_srli_epi16(v, kShift);
}
template <int kShift>
EXO_INLINE __m512i left(__m512i v) {
  if constexpr (kShift >= 0) return _mm512_slli_epi16(v, kShift);
  return _mm512_srli_epi16(v, -kShift);
}

// The codes of one block as unsigned bytes, a vector per quad.
template <int kBits>
EXO_INLINE void load_codes(const std::byte* p, __m512i (&v)[kQuads]) {
  if constexpr (kBits == 8) {
    for (std::size_t i = 0; i < 8; ++i) v[i] = load(p + 64 * i);
  } else if constexpr (kBits >= 4) {
    const __m512i mask = _mm512_set1_epi8(15);
    for (std::size_t i = 0; i < 4; ++i) {
      const __m512i low = load(p + 64 * i);
      v[2 * i] = _mm512_and_si512(low, mask);
      v[2 * i + 1] = _mm512_and_si512(right<4>(low), mask);
    }
    if constexpr (kBits == 5) {
      const __m512i high = load(p + 256), bit = _mm512_set1_epi8(16);
      v[0] = _mm512_or_si512(v[0], _mm512_and_si512(left<4>(high), bit));
      v[1] = _mm512_or_si512(v[1], _mm512_and_si512(left<3>(high), bit));
      v[2] = _mm512_or_si512(v[2], _mm512_and_si512(left<2>(high), bit));
      v[3] = _mm512_or_si512(v[3], _mm512_and_si512(left<1>(high), bit));
      v[4] = _mm512_or_si512(v[4], _mm512_and_si512(high, bit));
      v[5] = _mm512_or_si512(v[5], _mm512_and_si512(right<1>(high), bit));
      v[6] = _mm512_or_si512(v[6], _mm512_and_si512(right<2>(high), bit));
      v[7] = _mm512_or_si512(v[7], _mm512_and_si512(right<3>(high), bit));
    } else if constexpr (kBits == 6) {
      const __m512i bits = _mm512_set1_epi8(48);
      for (std::size_t i = 0; i < 2; ++i) {
        const __m512i high = load(p + 256 + 64 * i);
        v[4 * i] = _mm512_or_si512(v[4 * i], _mm512_and_si512(left<4>(high), bits));
        v[4 * i + 1] = _mm512_or_si512(v[4 * i + 1], _mm512_and_si512(left<2>(high), bits));
        v[4 * i + 2] = _mm512_or_si512(v[4 * i + 2], _mm512_and_si512(high, bits));
        v[4 * i + 3] = _mm512_or_si512(v[4 * i + 3], _mm512_and_si512(right<2>(high), bits));
      }
    }
  } else {
    const __m512i mask = _mm512_set1_epi8(3);
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i low = load(p + 64 * i);
      v[4 * i] = _mm512_and_si512(low, mask);
      v[4 * i + 1] = _mm512_and_si512(right<2>(low), mask);
      v[4 * i + 2] = _mm512_and_si512(right<4>(low), mask);
      v[4 * i + 3] = _mm512_and_si512(right<6>(low), mask);
    }
    if constexpr (kBits == 3) {
      const __m512i high = load(p + 128), bit = _mm512_set1_epi8(4);
      v[0] = _mm512_or_si512(v[0], _mm512_and_si512(left<2>(high), bit));
      v[1] = _mm512_or_si512(v[1], _mm512_and_si512(left<1>(high), bit));
      v[2] = _mm512_or_si512(v[2], _mm512_and_si512(high, bit));
      v[3] = _mm512_or_si512(v[3], _mm512_and_si512(right<1>(high), bit));
      v[4] = _mm512_or_si512(v[4], _mm512_and_si512(right<2>(high), bit));
      v[5] = _mm512_or_si512(v[5], _mm512_and_si512(right<3>(high), bit));
      v[6] = _mm512_or_si512(v[6], _mm512_and_si512(right<4>(high), bit));
      v[7] = _mm512_or_si512(v[7], _mm512_and_si512(right<5>(high), bit));
    }
  }
}

struct Simd {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr std::size_t kRows = 16;
  static constexpr int kMostRows = 8;  // rows of activations at once

  EXO_INLINE Floats zero() { return _mm512_setzero_ps(); }
  EXO_INLINE Floats set1(float x) { return _mm512_set1_ps(x); }
  EXO_INLINE Ints set1_int(int x) { return _mm512_set1_epi32(x); }
  EXO_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  EXO_INLINE Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  EXO_INLINE Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  EXO_INLINE Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  EXO_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  EXO_INLINE Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
  EXO_INLINE void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }

  EXO_INLINE Floats load_numbers(const std::byte* p, FloatType type) {
    if (type == FloatType::kF32) return _mm512_loadu_ps(p);
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    if (type == FloatType::kF16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  EXO_INLINE void load_bf16_pairs(const std::byte* p, Floats& first, Floats& second) {
    const Ints pair = load(p);
    first = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
    second = _mm512_castsi512_ps(
        _mm512_and_si512(pair, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  EXO_INLINE Floats unsigned_bytes(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_bytes(p)));
  }
  EXO_INLINE Floats signed_bytes(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(p)));
  }
  EXO_INLINE void nibbles(const std::byte* p, Floats& low, Floats& high) {
    const Ints v = _mm512_cvtepu8_epi32(load_bytes(p));
    low = _mm512_cvtepi32_ps(_mm512_and_si512(v, _mm512_set1_epi32(15)));
    high = _mm512_cvtepi32_ps(_mm512_srli_epi32(v, 4));
  }
  // 2^(byte − kBias), subnormal numbers included.
  template <int kBias>
  EXO_INLINE Floats power_of_two(const std::byte* p) {
    return _mm512_scalef_ps(set1(1), sub(unsigned_bytes(p), set1(kBias)));
  }
  // E4M3's sign and other seven bits, moved, are an f16 that is 256 times too small.
  EXO_INLINE Floats float8_over_256(const std::byte* p) {
    const __m256i byte = _mm256_cvtepu8_epi16(load_bytes(p));
    const __m256i moved = _mm256_srai_epi16(_mm256_slli_epi16(byte, 8), 1);
    return _mm512_cvtph_ps(_mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xbf80))));
  }
  EXO_INLINE void float8_over_256(const std::byte* p, Floats (&values)[4]) {
    const Ints v = load(p), bits = _mm512_set1_epi16(static_cast<short>(0xbf80));
    const Ints even = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 1), bits);
    const Ints odd = _mm512_and_si512(_mm512_srai_epi16(v, 1), bits);
    values[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(even));
    values[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1));
    values[2] = _mm512_cvtph_ps(_mm512_castsi512_si256(odd));
    values[3] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1));
  }
  EXO_INLINE Floats set1_pair(const float* p) {
    double pair;
    __builtin_memcpy(&pair, p, 8);
    return _mm512_castpd_ps(_mm512_set1_pd(pair));
  }
  // Each lane of `v` twice.
  EXO_INLINE void twice(Floats v, Floats& low, Floats& high) {
    const Ints lanes = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    low = _mm512_permutexvar_ps(lanes, v);
    high = _mm512_permutexvar_ps(_mm512_add_epi32(lanes, _mm512_set1_epi32(8)), v);
  }
  // The sums of neighbouring lanes of both.
  EXO_INLINE Floats add_pairs(Floats low, Floats high) {
    const Ints even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const Ints odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return add(_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high));
  }

  // What load_values has added to a value to make it an unsigned byte.
  template <typename F>
  static constexpr int offset() {
    if (F::kKind == Kind::kSymmetric) return 1 << (F::kBits - 1);
    return F::kKind == Kind::kNonlinear ? 128 : F::kKind == Kind::kFloat4 ? 12 : 0;
  }
  template <typename F>
  EXO_INLINE void load_values(const std::byte* p, Ints (&v)[kQuads]) {
    load_codes<F::kBits>(p, v);
    if constexpr (!F::kTable) return;
    const auto* values = F::kKind == Kind::kNonlinear ? kNonlinearValues : kFloat4Doubled;
    const Ints table = _mm512_add_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values))),
        _mm512_set1_epi8(static_cast<char>(offset<F>())));
    for (std::size_t i = 0; i < kQuads; ++i) v[i] = _mm512_shuffle_epi8(table, v[i]);
  }
  template <typename F>
  EXO_INLINE Ints add_dot(Ints sum, Ints values, const std::int8_t* q) {
    int word;
    __builtin_memcpy(&word, q, 4);
    return _mm512_dpbusd_epi32(sum, values, _mm512_set1_epi32(word));
  }
  template <typename F, int kByte>
  EXO_INLINE Floats value_of_byte(Ints v) {
    const Ints code = _mm512_and_si512(_mm512_srli_epi32(v, 8 * kByte), _mm512_set1_epi32(255));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(code, _mm512_set1_epi32(offset<F>())));
  }
};

}  // namespace

namespace avx512 {

TileKernel* tile_kernel(const Encoding& encoding, bool is_fast) {
  return kernel_of<Simd>(encoding, is_fast);
}

void quantize_row(const float* x, std::size_t n, std::size_t padded, std::size_t group,
                  const QuantizedRow& out) {
  const __m512i absolute = _mm512_set1_epi32(0x7fffffff);
  for (std::size_t begin = 0, g = 0; begin < padded; begin += group, ++g) {
    __m512 v[4];  // a group has 16, 32 or 64 columns
    const std::size_t vectors = group / 16;
    __m512i max_bits = _mm512_setzero_si512();
    for (std::size_t i = 0; i < vectors; ++i) {
      const std::size_t at = begin + 16 * i;
      const std::size_t left_over = at >= n ? 0 : n - at;
      const auto mask = static_cast<__mmask16>(left_over >= 16 ? 0xffff : (1U << left_over) - 1);
      v[i] = _mm512_maskz_loadu_ps(mask, x + at);
      max_bits = _mm512_max_epu32(max_bits, _mm512_and_si512(_mm512_castps_si512(v[i]), absolute));
    }
    const unsigned bits = _mm512_reduce_max_epu32(max_bits);
    float max;
    __builtin_memcpy(&max, &bits, 4);
    const bool usable = bits < 0x7f800000U && max > 1e-30F;
    const __m512 inverse = _mm512_set1_ps(usable ? 127.0F / max : 0.0F);
    __m512i sums = _mm512_setzero_si512();
    for (std::size_t i = 0; i < vectors; ++i) {
      const __m512i q =
          usable ? _mm512_cvtps_epi32(_mm512_mul_ps(v[i], inverse)) : _mm512_setzero_si512();
      sums = _mm512_add_epi32(sums, q);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q + begin + 16 * i), _mm512_cvtepi32_epi8(q));
    }
    const int sum = _mm512_reduce_add_epi32(sums);
    const float scale = bits >= 0x7f800000U ? __builtin_nanf("") : usable ? max / 127.0F : 0.0F;
    out.scale[g] = scale;
    out.code_sum[g] = sum;
    out.sum[g] = scale * static_cast<float>(sum);
  }
}

#undef EXO_INLINE

}  // namespace avx512
}  // namespace exo::kernels
