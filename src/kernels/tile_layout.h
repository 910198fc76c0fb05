// Where everything lies in a tile. Shared by packing, unpacking and the kernels; arithmetic only,
// no inline functions with loops, so that ISA files may include it.
//
// A tile of T rows is a sequence of groups. A group is its scales (T numbers), its biases if it has
// any, and its codes, so that one pointer runs through it. Where a group's scales fill only half a
// vector, two groups share a header, to keep every vector aligned.
//
// Codes come in blocks of 32 columns. A vector holds 4·T bytes: byte 4r+k belongs to row r and
// column k of a quad, four consecutive columns. A block has 8 quads; codes of b bits are split into
// bit planes (3 = 2+1, 5 = 4+1, 6 = 4+2), and a plane of p bits packs 8/p quads into one vector:
// quad s of it at bit s·p of each byte.
//
// Dense tiles have no groups: f32 and f16 column by column, bf16 in pairs of columns (row r:
// columns 2j and 2j+1 side by side).
#pragma once

#include <cstddef>

#include "kernels/encoding.h"

namespace exo::kernels {

inline constexpr std::size_t kBlockColumns = 32;
inline constexpr std::size_t kMaxActivationGroup = 64;

struct TileLayout {
  std::size_t tile_rows = 0;
  std::size_t padded_cols = 0;
  std::size_t groups = 0;             // 0 for dense
  std::size_t groups_per_header = 1;  // 1 or 2
  std::size_t header_bytes = 0;       // scales and biases of one group
  std::size_t code_bytes = 0;         // codes of one group
  std::size_t tile_bytes = 0;

  std::size_t group_bytes() const { return header_bytes + code_bytes; }
  std::size_t header_at(std::size_t group) const {
    const std::size_t within = group % groups_per_header;
    return (group - within) * group_bytes() + within * header_bytes;
  }
  std::size_t codes_at(std::size_t group) const {
    const std::size_t within = group % groups_per_header;
    return (group - within) * group_bytes() + groups_per_header * header_bytes +
           within * code_bytes;
  }
};

TileLayout tile_layout(const Encoding& encoding, std::size_t cols, std::size_t tile_rows);

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
