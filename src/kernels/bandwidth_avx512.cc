// Reading 64 bytes at a time.
#include <immintrin.h>

#include "kernels/bandwidth_parts.h"

namespace exo::kernels {

std::uint64_t avx512::sum_lines(const std::uint64_t* words, std::size_t lines) {
  __m512i sums[4] = {};
  for (std::size_t line = 0; line < lines; ++line, words += 32) {
    for (int i = 0; i < 4; ++i) {
      sums[i] = _mm512_add_epi64(sums[i], _mm512_loadu_si512(words + 8 * i));
    }
  }
  for (int i = 1; i < 4; ++i) sums[0] = _mm512_add_epi64(sums[0], sums[i]);
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sums[0]));
}

}  // namespace exo::kernels
