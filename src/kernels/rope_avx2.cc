// rope.h on 8 lanes.
#include "kernels/rope.h"

#include <immintrin.h>

#include "kernels/exp_avx2.h"

namespace exo::kernels {
namespace {

__m256i lanes_left(std::size_t left, std::size_t most) {
  return avx2::first_lanes(static_cast<int>(left < most ? left : most));
}

void rotate_halves(float* x, std::size_t half, const float* cosines, const float* sines) {
  for (std::size_t i = 0; i < half; i += 8) {
    const __m256i m = lanes_left(half - i, 8);
    const __m256 a = _mm256_maskload_ps(x + i, m), b = _mm256_maskload_ps(x + half + i, m);
    const __m256 c = _mm256_maskload_ps(cosines + i, m), s = _mm256_maskload_ps(sines + i, m);
    _mm256_maskstore_ps(x + i, m, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    _mm256_maskstore_ps(x + half + i, m, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
  }
}

void rotate_neighbours(float* x, std::size_t half, const float* cosines, const float* sines) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  for (std::size_t i = 0; i < half; i += 4) {
    const __m256i m = lanes_left(half - i, 4), both = lanes_left(2 * (half - i), 8);
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_maskload_ps(cosines + i, m), twice);
    const __m256 s = _mm256_permutevar8x32_ps(_mm256_maskload_ps(sines + i, m), twice);
    const __m256 v = _mm256_maskload_ps(x + 2 * i, both);
    const __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s);
    _mm256_maskstore_ps(x + 2 * i, both, _mm256_fmaddsub_ps(v, c, crossed));
  }
}

}  // namespace

void avx2::rope(float* x, std::size_t heads, std::size_t head_dim, std::size_t rotated,
                const float* cosines, const float* sines, RopePairs pairs) {
  const auto rotate = pairs == RopePairs::kInterleaved ? rotate_neighbours : rotate_halves;
  for (std::size_t head = 0; head < heads; ++head) {
    rotate(x + head * head_dim, rotated / 2, cosines, sines);
  }
}

}  // namespace exo::kernels
