// rope.h on 16 lanes.
#include "kernels/rope.h"

#include <immintrin.h>

namespace exo::kernels {
namespace {

__mmask16 lanes_left(std::size_t left) {
  return left >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << left) - 1);
}

void rotate_halves(float* x, std::size_t half, const float* cosines, const float* sines) {
  for (std::size_t i = 0; i < half; i += 16) {
    const __mmask16 m = lanes_left(half - i);
    const __m512 a = _mm512_maskz_loadu_ps(m, x + i), b = _mm512_maskz_loadu_ps(m, x + half + i);
    const __m512 c = _mm512_maskz_loadu_ps(m, cosines + i), s = _mm512_maskz_loadu_ps(m, sines + i);
    _mm512_mask_storeu_ps(x + i, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(x + half + i, m, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
  }
}

void rotate_neighbours(float* x, std::size_t half, const float* cosines, const float* sines) {
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  for (std::size_t i = 0; i < half; i += 8) {
    const __mmask16 m = lanes_left(half - i) & __mmask16{0xff};
    const __mmask16 both = lanes_left(2 * (half - i));
    const __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(m, cosines + i));
    const __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(m, sines + i));
    const __m512 v = _mm512_maskz_loadu_ps(both, x + 2 * i);
    const __m512 crossed = _mm512_mul_ps(_mm512_permute_ps(v, 0xb1), s);
    _mm512_mask_storeu_ps(x + 2 * i, both, _mm512_fmaddsub_ps(v, c, crossed));
  }
}

}  // namespace

void avx512::rope(float* x, std::size_t heads, std::size_t head_dim, std::size_t rotated,
                  const float* cosines, const float* sines, RopePairs pairs) {
  const auto rotate = pairs == RopePairs::kInterleaved ? rotate_neighbours : rotate_halves;
  for (std::size_t head = 0; head < heads; ++head) {
    rotate(x + head * head_dim, rotated / 2, cosines, sines);
  }
}

}  // namespace exo::kernels
