// Rows of weights as containers store them: the codes of one block of 32 columns, the scales of one
// group or super-block. Internal to kernels/; pack() turns what is read here into tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pack.h"

namespace exo::kernels {

// Bytes from one row of codes (or blocks, or numbers) to the next.
std::size_t row_bytes(const RowSource& source);

inline constexpr std::size_t kMaxTileRows = 16;

// The 32 codes of block `block` of `lanes` rows, which begin at rows[lane], as unsigned bytes.
void read_codes(const RowSource& source, const std::byte* const* rows, std::size_t lanes,
                std::size_t block, std::uint8_t (&codes)[kMaxTileRows][32]);

// The scales, and biases if it has any, of all groups of a row, one after another; what they are is
// the encoding's `scales` and `type`. `biases` may be null.
void read_scales(const RowSource& source, std::size_t row, std::byte* scales, std::byte* biases);

// The two levels of scales of super-block `block`, as the tiles hold them.
struct SuperScales {
  std::uint16_t d = 0, dmin = 0;  // f16
  std::uint8_t scale[16] = {};    // per group; signed bytes where the encoding is symmetric
  std::uint8_t bias[16] = {};
};
SuperScales read_super_scales(const RowSource& source, const std::byte* row, std::size_t block);

}  // namespace exo::kernels
