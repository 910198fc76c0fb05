#include "kernels/tile_layout.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/check.h"

namespace exo::kernels {
namespace {

using Kind = Encoding::Kind;
using Scales = Encoding::Scales;

bool is_two_level(const Encoding& encoding) { return encoding.scales == Scales::kTwoLevel; }

// Affine codes of 2 bits have scale and bias codes of 4, which share a byte.
bool shares_bytes(const Encoding& encoding) { return is_two_level(encoding) && encoding.bits == 2; }

// Bytes per row that a group has in a head.
std::size_t group_head_bytes(const Encoding& encoding) {
  const std::size_t size = encoding.scales == Scales::kNumbers ? size_of(encoding.type) : 1;
  return has_bias(encoding) && !shares_bytes(encoding) ? 2 * size : size;
}

// Bytes per row of a super-block's factors.
std::size_t factor_bytes(const Encoding& encoding) {
  if (!is_two_level(encoding)) return 0;
  return has_bias(encoding) ? 4 : 2;
}

std::size_t groups_per_chunk(const Encoding& encoding) {
  if (is_two_level(encoding)) return kSuperBlock / encoding.group_size;
  return std::max<std::size_t>(1, 4 / group_head_bytes(encoding));
}

}  // namespace

TileLayout tile_layout(const Encoding& encoding, std::size_t cols, std::size_t tile_rows) {
  TileLayout layout{.tile_rows = tile_rows};
  if (encoding.kind == Kind::kDense) {
    layout.padded_cols = round_up<std::size_t>(cols, 4);
    layout.tile_bytes = layout.padded_cols * tile_rows * size_of(encoding.type);
    return layout;
  }
  EXO_CHECK(supported(encoding));
  layout.groups_per_chunk = groups_per_chunk(encoding);
  layout.chunk_cols = layout.groups_per_chunk * encoding.group_size;
  layout.padded_cols = round_up<std::size_t>(cols, layout.chunk_cols);
  layout.groups = layout.padded_cols / encoding.group_size;
  layout.head_bytes =
      tile_rows * (factor_bytes(encoding) + layout.groups_per_chunk * group_head_bytes(encoding));
  layout.block_bytes = tile_rows * kBlockColumns * encoding.bits / 8;
  layout.chunk_bytes = layout.head_bytes + layout.chunk_cols / kBlockColumns * layout.block_bytes;
  layout.tile_bytes =
      round_up<std::size_t>(layout.padded_cols / layout.chunk_cols * layout.chunk_bytes, 64);
  return layout;
}

HeadOffsets head_offsets(const Encoding& encoding, std::size_t tile_rows, std::size_t group) {
  const std::size_t per_group = tile_rows * group_head_bytes(encoding);
  const std::size_t scale = tile_rows * factor_bytes(encoding) + group * per_group;
  const std::size_t bias = has_bias(encoding) && !shares_bytes(encoding) ? per_group / 2 : 0;
  return {.scale = scale, .bias = scale + bias};
}

std::size_t activation_group(const Encoding& encoding) {
  if (encoding.kind == Kind::kDense) return kBlockColumns;
  return std::min<std::size_t>(encoding.group_size, kMaxActivationGroup);
}

}  // namespace exo::kernels
