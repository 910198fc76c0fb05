#include "kernels/tile_layout.h"

#include <algorithm>

#include "core/bytes.h"

namespace exo::kernels {

TileLayout tile_layout(const Encoding& encoding, std::size_t cols, std::size_t tile_rows) {
  TileLayout layout{.tile_rows = tile_rows};
  if (encoding.kind == Encoding::Kind::kDense) {
    layout.padded_cols = round_up<std::size_t>(cols, 4);
    layout.tile_bytes = layout.padded_cols * tile_rows * size_of(encoding.type);
    return layout;
  }
  const bool has_bias = encoding.kind == Encoding::Kind::kAffine;
  layout.header_bytes = tile_rows * size_of(encoding.type) * (has_bias ? 2 : 1);
  layout.code_bytes = tile_rows * encoding.group_size * encoding.bits / 8;
  layout.groups_per_header = layout.header_bytes < 4 * tile_rows ? 2 : 1;
  layout.groups =
      round_up(divide_up<std::size_t>(cols, encoding.group_size), layout.groups_per_header);
  layout.padded_cols = layout.groups * encoding.group_size;
  layout.tile_bytes = layout.groups * layout.group_bytes();
  return layout;
}

std::size_t activation_group(const Encoding& encoding) {
  if (encoding.kind == Encoding::Kind::kDense) return kBlockColumns;
  return std::min<std::size_t>(encoding.group_size, kMaxActivationGroup);
}

}  // namespace exo::kernels
