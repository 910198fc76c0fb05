// vector_ops.h on 8 lanes; the last n % 8 elements under a mask, of the conversions one by one.
#include "kernels/vector_ops.h"

#include <immintrin.h>

#include "kernels/exp_avx2.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kLanes = 8;

__m256i lanes_left(std::size_t left) {
  return avx2::first_lanes(left < kLanes ? static_cast<int>(left) : int{kLanes});
}

float inverse_root(float x) {
  return _mm_cvtss_f32(_mm_div_ss(_mm_set_ss(1), _mm_sqrt_ss(_mm_set_ss(x))));
}

float sum_of_squares(const float* x, std::size_t n) {
  __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + kLanes);
    even = _mm256_fmadd_ps(a, a, even);
    odd = _mm256_fmadd_ps(b, b, odd);
  }
  for (; i < n; i += kLanes) {
    const __m256 a = _mm256_maskload_ps(x + i, lanes_left(n - i));
    even = _mm256_fmadd_ps(a, a, even);
  }
  return avx2::sum_of(_mm256_add_ps(even, odd));
}

// Of 8 f32, the bf16 in the low halves of 8 words.
__m256i round_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i half =
      _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
}

__m128i load_8_words(const std::uint16_t* x) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
}

void store_8_words(std::uint16_t* y, __m128i words) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), words);
}

}  // namespace

void avx2::rms_norm(const float* x, const float* w, float eps, float* y, std::size_t n) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const __m256 inverse = _mm256_set1_ps(inverse_root(mean + eps));
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    const __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(x + i, m), inverse);
    _mm256_maskstore_ps(y + i, m, _mm256_mul_ps(scaled, _mm256_maskload_ps(w + i, m)));
  }
}

void avx2::swiglu(const float* gate, const float* up, float* y, std::size_t n) {
  const __m256 one = _mm256_set1_ps(1);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    const __m256 z = _mm256_maskload_ps(gate + i, m);
    const __m256 e = exp_lanes(_mm256_sub_ps(_mm256_setzero_ps(), z));
    const __m256 silu = _mm256_div_ps(z, _mm256_add_ps(one, e));
    _mm256_maskstore_ps(y + i, m, _mm256_mul_ps(silu, _mm256_maskload_ps(up + i, m)));
  }
}

void avx2::geglu(const float* gate, const float* up, float* y, std::size_t n) {
  const __m256 one = _mm256_set1_ps(1);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    const __m256 z = _mm256_maskload_ps(gate + i, m);
    // −2·√(2/π)·z·(1 + 0.044715·z²)
    const __m256 cubic = _mm256_fmadd_ps(_mm256_mul_ps(z, z), _mm256_set1_ps(0.044715F), one);
    const __m256 t = _mm256_mul_ps(_mm256_mul_ps(z, _mm256_set1_ps(-1.5957691216F)), cubic);
    const __m256 gelu = _mm256_div_ps(z, _mm256_add_ps(one, exp_lanes(t)));
    _mm256_maskstore_ps(y + i, m, _mm256_mul_ps(gelu, _mm256_maskload_ps(up + i, m)));
  }
}

void avx2::softmax(float* x, std::size_t n) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 largest = lowest;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    const __m256 loaded = _mm256_maskload_ps(x + i, m);
    largest = _mm256_max_ps(largest, _mm256_blendv_ps(lowest, loaded, _mm256_castsi256_ps(m)));
  }
  const __m256 shift = _mm256_set1_ps(max_of(largest));
  __m256 sums = _mm256_setzero_ps();
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    const __m256 e = exp_lanes(_mm256_sub_ps(_mm256_maskload_ps(x + i, m), shift));
    sums = _mm256_add_ps(sums, _mm256_and_ps(e, _mm256_castsi256_ps(m)));
    _mm256_maskstore_ps(x + i, m, e);
  }
  const __m256 inverse = _mm256_set1_ps(1 / sum_of(sums));
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    _mm256_maskstore_ps(x + i, m, _mm256_mul_ps(_mm256_maskload_ps(x + i, m), inverse));
  }
}

void avx2::add(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    const __m256 sum = _mm256_add_ps(_mm256_maskload_ps(y + i, m), _mm256_maskload_ps(x + i, m));
    _mm256_maskstore_ps(y + i, m, sum);
  }
}

void avx2::exponential(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __m256i m = lanes_left(n - i);
    _mm256_maskstore_ps(y + i, m, exp_lanes(_mm256_maskload_ps(x + i, m)));
  }
}

void avx2::bf16_to_f32(const std::uint16_t* x, float* y, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256i wide = _mm256_cvtepu16_epi32(load_8_words(x + i));
    _mm256_storeu_ps(y + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
  scalar::bf16_to_f32(x + i, y + i, n - i);
}

void avx2::f16_to_f32(const std::uint16_t* x, float* y, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(load_8_words(x + i)));
  }
  scalar::f16_to_f32(x + i, y + i, n - i);
}

void avx2::f32_to_bf16(const float* x, std::uint16_t* y, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256i words = round_to_bf16(_mm256_loadu_ps(x + i));
    store_8_words(
        y + i, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  scalar::f32_to_bf16(x + i, y + i, n - i);
}

void avx2::f32_to_f16(const float* x, std::uint16_t* y, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store_8_words(y + i, _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
  scalar::f32_to_f16(x + i, y + i, n - i);
}

}  // namespace exo::kernels
