// vector_ops.h on 16 lanes; the last n % 16 elements under a mask.
#include "kernels/vector_ops.h"

#include <immintrin.h>

#include "kernels/exp_avx512.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kLanes = 16;

__mmask16 lanes_left(std::size_t left) {
  return left >= kLanes ? __mmask16{0xffff} : static_cast<__mmask16>((1U << left) - 1);
}

// y[i] = map(x[i]).
template <typename Map>
void map_each(const float* x, float* y, std::size_t n, Map map) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    _mm512_mask_storeu_ps(y + i, m, map(_mm512_maskz_loadu_ps(m, x + i)));
  }
}

// 1 / sqrt with the accuracy of the division and the root.
float inverse_root(float x) {
  return _mm_cvtss_f32(_mm_div_ss(_mm_set_ss(1), _mm_sqrt_ss(_mm_set_ss(x))));
}

float sum_of_squares(const float* x, std::size_t n) {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
  for (std::size_t i = 0; i < n; i += 2 * kLanes) {
    const __m512 a = _mm512_maskz_loadu_ps(lanes_left(n - i), x + i);
    even = _mm512_fmadd_ps(a, a, even);
    if (n - i <= kLanes) break;
    const __m512 b = _mm512_maskz_loadu_ps(lanes_left(n - i - kLanes), x + i + kLanes);
    odd = _mm512_fmadd_ps(b, b, odd);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
}

__m256i round_to_bf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i half =
      _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)));
}

}  // namespace

void avx512::rms_norm(const float* x, const float* w, float eps, float* y, std::size_t n) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const __m512 inverse = _mm512_set1_ps(inverse_root(mean + eps));
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), inverse);
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(m, w + i)));
  }
}

void avx512::swiglu(const float* gate, const float* up, float* y, std::size_t n) {
  const __m512 one = _mm512_set1_ps(1);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m512 z = _mm512_maskz_loadu_ps(m, gate + i);
    const __m512 e = exp_lanes(_mm512_sub_ps(_mm512_setzero_ps(), z));
    const __m512 silu = _mm512_div_ps(z, _mm512_add_ps(one, e));
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(m, up + i)));
  }
}

void avx512::geglu(const float* gate, const float* up, float* y, std::size_t n) {
  const __m512 one = _mm512_set1_ps(1);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m512 z = _mm512_maskz_loadu_ps(m, gate + i);
    // −2·√(2/π)·z·(1 + 0.044715·z²)
    const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(z, z), _mm512_set1_ps(0.044715F), one);
    const __m512 t = _mm512_mul_ps(_mm512_mul_ps(z, _mm512_set1_ps(-1.5957691216F)), cubic);
    const __m512 gelu = _mm512_div_ps(z, _mm512_add_ps(one, exp_lanes(t)));
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(gelu, _mm512_maskz_loadu_ps(m, up + i)));
  }
}

void avx512::softmax(float* x, std::size_t n) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 largest = lowest;
  for (std::size_t i = 0; i < n; i += kLanes) {
    largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, lanes_left(n - i), x + i));
  }
  const __m512 shift = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
  __m512 sums = _mm512_setzero_ps();
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m512 e = exp_lanes(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), shift));
    sums = _mm512_mask_add_ps(sums, m, sums, e);
    _mm512_mask_storeu_ps(x + i, m, e);
  }
  const __m512 inverse = _mm512_set1_ps(1 / _mm512_reduce_add_ps(sums));
  map_each(x, x, n, [&](__m512 e) { return _mm512_mul_ps(e, inverse); });
}

void avx512::add(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m512 sum =
        _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + i), _mm512_maskz_loadu_ps(m, x + i));
    _mm512_mask_storeu_ps(y + i, m, sum);
  }
}

void avx512::exponential(const float* x, float* y, std::size_t n) { map_each(x, y, n, exp_lanes); }

void avx512::bf16_to_f32(const std::uint16_t* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x + i));
    _mm512_mask_storeu_ps(y + i, m, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
  }
}

void avx512::f16_to_f32(const std::uint16_t* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    _mm512_mask_storeu_ps(y + i, m, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, x + i)));
  }
}

void avx512::f32_to_bf16(const float* x, std::uint16_t* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    _mm256_mask_storeu_epi16(y + i, m, round_to_bf16(_mm512_maskz_loadu_ps(m, x + i)));
  }
}

void avx512::f32_to_f16(const float* x, std::uint16_t* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 m = lanes_left(n - i);
    const __m256i half =
        _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_mask_storeu_epi16(y + i, m, half);
  }
}

}  // namespace exo::kernels
