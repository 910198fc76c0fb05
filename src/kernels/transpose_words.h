// Rows of 32-bit words into columns: the step from a file's order to a tile's. Internal to
// kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace exo::kernels {

// out[word · rows + row] = word `word` of `from[row]`, for `rows` rows (a multiple of 4) and 8
// words each. Addresses may be unaligned.
inline void transpose_words(const std::byte* const* from, std::size_t rows, std::uint32_t* out) {
  using Words = std::uint32_t __attribute__((vector_size(16)));
  for (std::size_t row = 0; row < rows; row += 4) {
    for (std::size_t word = 0; word < 8; word += 4) {
      Words w[4];
      for (std::size_t i = 0; i < 4; ++i)
        std::memcpy(&w[i], from[row + i] + 4 * word, sizeof(Words));
      const Words low01 = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5),
                  high01 = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7),
                  low23 = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5),
                  high23 = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);
      const Words columns[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                                __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                                __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                                __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (std::size_t i = 0; i < 4; ++i)
        std::memcpy(out + (word + i) * rows + row, &columns[i], sizeof(Words));
    }
  }
}

}  // namespace exo::kernels
