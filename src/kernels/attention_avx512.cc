// attention_parts.h on 16 lanes.
#include <immintrin.h>

#include "kernels/attention_decode.h"
#include "kernels/attention_prefill.h"

namespace exo::kernels {
namespace {

struct Simd {
  using V = __m512;
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kKeys = 4;           // keys at once in score_keys
  static constexpr std::size_t kColumnVectors = 4;  // of one pass over a panel
  static constexpr bool kWide = true;               // registers for two pairs in sum_values

  static V zero() { return _mm512_setzero_ps(); }
  static V set1(float x) { return _mm512_set1_ps(x); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load_some(const float* p, std::size_t n, V rest) {
    return _mm512_mask_loadu_ps(rest, first_lanes(n), p);
  }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store_some(float* p, std::size_t n, V v) {
    _mm512_mask_storeu_ps(p, first_lanes(n), v);
  }
  static bool any_above(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static float sum(V v) { return _mm512_reduce_add_ps(v); }
  static float max_of(V v) { return _mm512_reduce_max_ps(v); }
  static float first(V v) { return _mm512_cvtss_f32(v); }

  static __mmask16 first_lanes(std::size_t n) {
    return n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << n) - 1);
  }

  // 2^x for x ≤ 0, within 2e-7 relative; below 2^-126 it is 0. 2^x = 2^⌊x⌋ · p(x − ⌊x⌋), p the
  // minimax polynomial of 2^r on [0, 1).
  static V exp2(V x) {
    const __mmask16 kept = _mm512_cmp_ps_mask(x, set1(-126), _CMP_NLT_UQ);  // NaN too
    const V r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    V p = set1(1.877576673e-3F);
    p = fma(p, r, set1(8.989340095e-3F));
    p = fma(p, r, set1(5.582631805e-2F));
    p = fma(p, r, set1(2.401536170e-1F));
    p = fma(p, r, set1(6.931530732e-1F));
    p = fma(p, r, set1(9.999999251e-1F));
    return _mm512_maskz_scalef_ps(kept, p, x);
  }

  // The sums over the lanes of four vectors.
  static void store_sums(float* to, const V (&v)[kKeys]) {
    const V ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const V cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    const V abcd = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                                 _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }

  template <FloatType T>
  static V widen(const std::byte* p, std::size_t left) {
    const __mmask16 m = first_lanes(left);
    if constexpr (T == FloatType::kF32) return _mm512_maskz_loadu_ps(m, p);
    const __m256i words = _mm256_maskz_loadu_epi16(m, p);
    if constexpr (T == FloatType::kF16) return _mm512_cvtph_ps(words);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }

  // The first 32 of `left` elements in the order of the pairs, zeros beyond the end.
  template <FloatType T>
  static void load_pair(const std::byte* p, std::size_t left, V& a, V& b) {
    if constexpr (T == FloatType::kBf16) {
      const __m512i words = left >= 32 ? _mm512_loadu_si512(p)
                                       : _mm512_maskz_loadu_epi16((__mmask32{1} << left) - 1, p);
      a = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
      b = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65536)));
    } else {
      a = widen<T>(p, left);
      b = widen<T>(p + 16 * kBytes<T>, left > 16 ? left - 16 : 0);
    }
  }

  // rows[i][j] becomes rows[j][i].
  static void transpose(V (&rows)[kLanes]) {
    V pairs[16];
    for (std::size_t i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    V quads[16];  // quads[4k + c] holds column c of each 128-bit part, rows 4k to 4k + 3
    for (std::size_t i = 0; i < 16; i += 4) {
      for (std::size_t c = 0; c < 2; ++c) {
        const __m512d x = _mm512_castps_pd(pairs[i + c]), y = _mm512_castps_pd(pairs[i + 2 + c]);
        quads[i + 2 * c] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
        quads[i + 2 * c + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
      }
    }
    for (std::size_t c = 0; c < 4; ++c) {
      const V low = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0x44);
      const V low_high = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0xee);
      const V high = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0x44);
      const V high_high = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0xee);
      rows[c] = _mm512_shuffle_f32x4(low, high, 0x88);
      rows[4 + c] = _mm512_shuffle_f32x4(low, high, 0xdd);
      rows[8 + c] = _mm512_shuffle_f32x4(low_high, high_high, 0x88);
      rows[12 + c] = _mm512_shuffle_f32x4(low_high, high_high, 0xdd);
    }
  }
};

}  // namespace

void avx512::decode_block(const DecodeBlock& block) { decode_any<Simd>(block); }
void avx512::prefill_tile(const PrefillTile& tile) { prefill_any<Simd>(tile); }

}  // namespace exo::kernels
