#include "kernels/pack_block.h"

#include <cstring>

#include "kernels/transpose_words.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kQuads = kBlockColumns / 4;

template <std::size_t kRows>
void pack(const std::uint8_t (*codes)[kBlockColumns], std::size_t bits, std::byte* out) {
  // Word r of quads[q] holds the four codes of row r in quad q; shifting and joining whole words
  // moves all four at once, since a code and its shift stay within their byte.
  alignas(64) std::uint32_t quads[kQuads][kRows];
  const std::byte* from[kRows];
  for (std::size_t row = 0; row < kRows; ++row)
    from[row] = reinterpret_cast<const std::byte*>(codes[row]);
  transpose_words(from, kRows, quads[0]);
  const BitPlanes planes = bit_planes(bits);
  for (std::size_t p = 0, shift = 0; p < planes.count; ++p) {
    const std::size_t width = planes.bits[p], per_vector = 8 / width;
    const std::uint32_t mask = ((1U << width) - 1) * 0x01010101U;
    for (std::size_t first = 0; first < kQuads; first += per_vector) {
      alignas(64) std::uint32_t vector[kRows] = {};
      for (std::size_t s = 0; s < per_vector; ++s) {
        for (std::size_t row = 0; row < kRows; ++row)
          vector[row] |= ((quads[first + s][row] >> shift) & mask) << (s * width);
      }
      std::memcpy(out, vector, sizeof vector);
      out += sizeof vector;
    }
    shift += width;
  }
}

}  // namespace

namespace scalar {

void pack_16_rows(const std::uint8_t (*codes)[kBlockColumns], std::size_t bits, std::byte* out) {
  pack<16>(codes, bits, out);
}
void pack_8_rows(const std::uint8_t (*codes)[kBlockColumns], std::size_t bits, std::byte* out) {
  pack<8>(codes, bits, out);
}

}  // namespace scalar
}  // namespace exo::kernels
