// e^x on 8 lanes and sums over lanes, for *_avx2.cc alone: internal linkage, so that no other file
// can get these copies.
#pragma once

#include <immintrin.h>

namespace exo::kernels::avx2 {
namespace {

// 2^n for whole −127 < n < 128.
inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// Within 3e-7 relative; below 2^-126 it is 0. x = n·ln 2 + r, |r| ≤ ln 2 / 2; the polynomial for
// e^r is that of Moshier's Cephes expf.
[[maybe_unused]] inline __m256 exp_lanes(__m256 x) {
  const __m256 kept = _mm256_cmp_ps(x, _mm256_set1_ps(-87.336F), _CMP_NLT_UQ);  // NaN too
  x = _mm256_min_ps(_mm256_set1_ps(89.0F), x);  // e^89 is ∞ already; a NaN stays
  x = _mm256_max_ps(_mm256_set1_ps(-88.0F), x);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504F)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4F);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1F));
  p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, _mm256_add_ps(r, _mm256_set1_ps(1.0F)));
  // In two steps, since 2^128 is no f32.
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  p = _mm256_mul_ps(p, power_of_two(half));
  p = _mm256_mul_ps(p, power_of_two(_mm256_sub_epi32(whole, half)));
  return _mm256_and_ps(p, kept);
}

[[maybe_unused]] inline float sum_of(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

[[maybe_unused]] inline float max_of(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

// All ones in the first `n` of 8 lanes.
[[maybe_unused]] inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace exo::kernels::avx2
