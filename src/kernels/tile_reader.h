// Single weights, groups and rows of a tile, one at a time: what the reference kernels and
// embedding look-ups read. Tiles are trusted: pack() made them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/encoding.h"
#include "kernels/tile_layout.h"

namespace exo::kernels {

// E4M3: sign, 4 bits of exponent (bias 7), 3 of mantissa; 0x7f is 480. Source: models.md 1.6.
float float8_value(std::uint8_t code);
// 2^(byte − 127).
float e8m0_value(std::uint8_t byte);

struct GroupScale {
  float scale = 0, bias = 0;
};

class TileReader {
 public:
  TileReader(const std::byte* tile, const TileLayout& layout, const Encoding& encoding)
      : tile_(tile), layout_(layout), encoding_(encoding) {}

  // Of a dense tile.
  float number(std::size_t lane, std::size_t col) const;
  // The scale of E2M1 codes is halved, since value() doubles them.
  GroupScale scale(std::size_t lane, std::size_t group) const;
  // What the scale multiplies: a whole number, except for E4M3.
  float value(std::size_t lane, std::size_t col) const;

 private:
  unsigned code(std::size_t lane, std::size_t col) const;
  float number_at(const std::byte* numbers, std::size_t index) const;

  const std::byte* tile_;
  const TileLayout& layout_;
  const Encoding& encoding_;
};

}  // namespace exo::kernels
