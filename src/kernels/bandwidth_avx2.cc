// Reading 32 bytes at a time.
#include <immintrin.h>

#include "kernels/bandwidth_parts.h"

namespace exo::kernels {

std::uint64_t avx2::sum_lines(const std::uint64_t* words, std::size_t lines) {
  const auto* p = reinterpret_cast<const __m256i*>(words);
  __m256i sums[8] = {};
  for (std::size_t line = 0; line < lines; ++line, p += 8) {
    for (int i = 0; i < 8; ++i) sums[i] = _mm256_add_epi64(sums[i], _mm256_loadu_si256(p + i));
  }
  for (int i = 1; i < 8; ++i) sums[0] = _mm256_add_epi64(sums[0], sums[i]);
  alignas(32) std::uint64_t parts[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sums[0]);
  return parts[0] + parts[1] + parts[2] + parts[3];
}

}  // namespace exo::kernels
