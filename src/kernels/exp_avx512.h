// e^x on 16 lanes, for *_avx512.cc alone: internal linkage, so that no other file can get this
// copy.
#pragma once

#include <immintrin.h>

namespace exo::kernels::avx512 {
namespace {

// Within 3e-7 relative; below 2^-126 it is 0. x = n·ln 2 + r, |r| ≤ ln 2 / 2; the polynomial for
// e^r is that of Moshier's Cephes expf.
[[maybe_unused]] inline __m512 exp_lanes(__m512 x) {
  const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.336F), _CMP_NLT_UQ);  // NaN too
  x = _mm512_min_ps(_mm512_set1_ps(89.0F), x);  // e^89 is ∞ already; a NaN stays
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1F));
  p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, _mm512_add_ps(r, _mm512_set1_ps(1.0F)));
  return _mm512_maskz_scalef_ps(kept, p, n);
}

}  // namespace
}  // namespace exo::kernels::avx512
