// The codes of a block of a tile, from bytes per row to the tile's order. Internal to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tile_layout.h"

namespace exo::kernels {

// codes[row][column] of 16 or 8 rows, unsigned and below 2^bits, as tile_layout.h describes a
// block.
using PackBlockFn = void(const std::uint8_t (*codes)[kBlockColumns], std::size_t bits,
                         std::byte* out);
namespace scalar {
PackBlockFn pack_16_rows;
PackBlockFn pack_8_rows;
}  // namespace scalar
namespace avx512 {
PackBlockFn pack_16_rows;
}

}  // namespace exo::kernels
