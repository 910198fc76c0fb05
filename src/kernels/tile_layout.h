// Where everything lies in a tile. Shared by packing, unpacking and the kernels; arithmetic only,
// no inline functions with loops, so that ISA files may include it.
//
// A tile of T rows is a sequence of chunks, and a chunk is a head, then codes, so that one pointer
// runs through it. A chunk spans as many groups of columns as its head needs to fill whole vectors.
// Its head holds, T numbers at a time:
//   numbers    for each group the scales, then the biases if it has any
//   bytes      for each group the E8M0 or E4M3 scales
//   two-level  for the super-block d (and dmin, if affine), f16; then for each group the scale
//   codes,
//              then the bias codes (affine of 2 bits: one byte for both)
//
// Codes come in blocks of 32 columns. A vector holds 4·T bytes: byte 4r+k belongs to row r and
// column k of a quad, four consecutive columns. A block has 8 quads; codes of b bits are split into
// bit planes (3 = 2+1, 5 = 4+1, 6 = 4+2), and a plane of p bits packs 8/p quads into one vector:
// quad s of it at bit s·p of each byte. E4M3 codes swap columns 1 and 2 of a quad, so that the even
// bytes are two neighbours, and the odd ones, too.
//
// Dense tiles have no groups: f32 and f16 column by column, bf16 in pairs of columns (row r:
// columns 2j and 2j+1 side by side).
#pragma once

#include <cstddef>

#include "kernels/encoding.h"

namespace exo::kernels {

inline constexpr std::size_t kBlockColumns = 32;
inline constexpr std::size_t kMaxActivationGroup = 64;
// Prepared activations are padded to a multiple of it, which is one of every chunk's columns.
inline constexpr std::size_t kActivationPadding = 256;

struct TileLayout {
  std::size_t tile_rows = 0;
  std::size_t padded_cols = 0;
  std::size_t groups = 0;  // 0 for dense
  std::size_t groups_per_chunk = 1;
  std::size_t chunk_cols = 0;
  std::size_t head_bytes = 0;   // of a chunk
  std::size_t block_bytes = 0;  // codes of 32 columns
  std::size_t chunk_bytes = 0;
  std::size_t tile_bytes = 0;

  std::size_t head_at(std::size_t group) const { return group / groups_per_chunk * chunk_bytes; }
  std::size_t codes_at(std::size_t block) const {
    const std::size_t blocks = chunk_cols / kBlockColumns;
    return block / blocks * chunk_bytes + head_bytes + block % blocks * block_bytes;
  }
};

TileLayout tile_layout(const Encoding& encoding, std::size_t cols, std::size_t tile_rows);

// Where the scale and the bias of group `group` of a chunk begin in its head; for two-level scales
// their codes, which follow d and dmin.
struct HeadOffsets {
  std::size_t scale = 0, bias = 0;
};
HeadOffsets head_offsets(const Encoding& encoding, std::size_t tile_rows, std::size_t group);

// The columns that share one scale of the quantised activations: the weights' group, at most 64.
std::size_t activation_group(const Encoding& encoding);

// The bit planes of a code, least significant first.
struct BitPlanes {
  std::size_t count;
  std::size_t bits[2];
};
constexpr BitPlanes bit_planes(std::size_t bits) {
  switch (bits) {
    case 3:
      return {2, {2, 1}};
    case 5:
      return {2, {4, 1}};
    case 6:
      return {2, {4, 2}};
    default:
      return {1, {bits, 0}};
  }
}

}  // namespace exo::kernels
