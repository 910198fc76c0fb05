// Reading word by word, in four streams of additions.
#include "kernels/bandwidth_parts.h"

namespace exo::kernels {

std::uint64_t scalar::sum_lines(const std::uint64_t* words, std::size_t lines) {
  std::uint64_t sums[4] = {};
  for (std::size_t i = 0; i < lines * kLineBytes / sizeof(std::uint64_t); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] += words[i + j];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace exo::kernels
