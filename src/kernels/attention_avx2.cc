// attention_parts.h on 8 lanes.
#include <immintrin.h>

#include "kernels/attention_decode.h"
#include "kernels/attention_prefill.h"
#include "kernels/exp_avx2.h"

namespace exo::kernels {
namespace {

struct Simd {
  using V = __m256;
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kKeys = 2;           // keys at once in score_keys
  static constexpr std::size_t kColumnVectors = 2;  // of one pass over a panel
  static constexpr bool kWide = false;              // registers for one pair in sum_values

  static V zero() { return _mm256_setzero_ps(); }
  static V set1(float x) { return _mm256_set1_ps(x); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load_some(const float* p, std::size_t n, V rest) {
    const __m256i m = avx2::first_lanes(n < 8 ? static_cast<int>(n) : 8);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m));
  }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store_some(float* p, std::size_t n, V v) {
    _mm256_maskstore_ps(p, avx2::first_lanes(n < 8 ? static_cast<int>(n) : 8), v);
  }
  static bool any_above(V a, V b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0;
  }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  static V max(V a, V b) { return _mm256_max_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static float sum(V v) { return avx2::sum_of(v); }
  static float max_of(V v) { return avx2::max_of(v); }
  static float first(V v) { return _mm256_cvtss_f32(v); }

  // 2^x for x ≤ 0, within 2e-7 relative; below 2^-126 it is 0. 2^x = 2^⌊x⌋ · p(x − ⌊x⌋), p the
  // minimax polynomial of 2^r on [0, 1); the whole part is added to the exponent.
  static V exp2(V x) {
    const V kept = _mm256_cmp_ps(x, set1(-126), _CMP_NLT_UQ);  // NaN too
    const V whole = _mm256_floor_ps(_mm256_max_ps(set1(-126), x));
    const V r = _mm256_sub_ps(_mm256_max_ps(set1(-126), x), whole);
    V p = set1(1.877576673e-3F);
    p = fma(p, r, set1(8.989340095e-3F));
    p = fma(p, r, set1(5.582631805e-2F));
    p = fma(p, r, set1(2.401536170e-1F));
    p = fma(p, r, set1(6.931530732e-1F));
    p = fma(p, r, set1(9.999999251e-1F));
    return _mm256_and_ps(_mm256_mul_ps(p, avx2::power_of_two(_mm256_cvtps_epi32(whole))), kept);
  }

  // The sums over the lanes of two vectors.
  static void store_sums(float* to, const V (&v)[kKeys]) {
    const V both = _mm256_hadd_ps(v[0], v[1]);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    const __m128 two = _mm_hadd_ps(four, four);
    _mm_storel_pi(reinterpret_cast<__m64*>(to), two);
  }

  template <FloatType T>
  static V widen(const std::byte* p, std::size_t left) {
    if constexpr (T == FloatType::kF32) {
      return load_some(reinterpret_cast<const float*>(p), left, zero());
    } else {
      const __m128i words = left >= 8 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))
                                      : _mm256_castsi256_si128(load_words(p, left));
      if constexpr (T == FloatType::kF16) return _mm256_cvtph_ps(words);
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
    }
  }

  // Up to 16 16-bit elements, zeros beyond.
  static __m256i load_words(const std::byte* p, std::size_t n) {
    alignas(32) std::byte words[32] = {};
    __builtin_memcpy(words, p, n < 16 ? 2 * n : 32);
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
  }

  // The first 16 of `left` elements in the order of the pairs, zeros beyond the end.
  template <FloatType T>
  static void load_pair(const std::byte* p, std::size_t left, V& a, V& b) {
    if constexpr (T == FloatType::kBf16) {
      const __m256i words = left >= 16 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                                       : load_words(p, left);
      a = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
      b = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536)));
    } else {
      a = widen<T>(p, left);
      b = left > 8 ? widen<T>(p + 8 * kBytes<T>, left - 8) : zero();
    }
  }

  // rows[i][j] becomes rows[j][i].
  static void transpose(V (&rows)[kLanes]) {
    V pairs[8], quads[8];
    for (std::size_t i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (std::size_t i = 0; i < 8; i += 4) {
      for (std::size_t c = 0; c < 2; ++c) {
        quads[i + 2 * c] = _mm256_shuffle_ps(pairs[i + c], pairs[i + 2 + c], 0x44);
        quads[i + 2 * c + 1] = _mm256_shuffle_ps(pairs[i + c], pairs[i + 2 + c], 0xee);
      }
    }
    for (std::size_t c = 0; c < 4; ++c) {
      rows[c] = _mm256_permute2f128_ps(quads[c], quads[4 + c], 0x20);
      rows[4 + c] = _mm256_permute2f128_ps(quads[c], quads[4 + c], 0x31);
    }
  }
};

}  // namespace

void avx2::decode_block(const DecodeBlock& block) { decode_any<Simd>(block); }
void avx2::prefill_tile(const PrefillTile& tile) { prefill_any<Simd>(tile); }

}  // namespace exo::kernels
