#include "kernels/tile_layout.h"

#include <gtest/gtest.h>

#include "kernels/test_matrices.h"

namespace exo::kernels {
namespace {

using namespace testing_matrices;

TEST(TileLayout, AddsNoBytesToWholeTiles) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    const Encoding encoding{.kind = Kind::kAffine,
                            .type = FloatType::kBf16,
                            .bits = static_cast<std::uint8_t>(bits),
                            .group_size = 64};
    EXPECT_EQ(tile_layout(encoding, 640, 16).tile_bytes, 16 * (640 * bits / 8 + 640 / 64 * 4))
        << bits;
  }
  const Encoding q8{.kind = Kind::kSymmetric, .type = FloatType::kF16, .bits = 8, .group_size = 32};
  EXPECT_EQ(tile_layout(q8, 576, 16).tile_bytes, 16 * 576 / 32 * 34U);
}

// architecture.md, decision 1: at most 4 % more bytes than in the file.
TEST(TileLayout, StaysNearTheSizeOfTheFile) {
  for (const BlockType& type : block_types()) {
    const std::size_t in_file = 1024 / type.columns * type.bytes;
    for (const std::size_t tile_rows : {8, 16}) {
      const std::size_t tile = tile_layout(type.encoding, 1024, tile_rows).tile_bytes;
      EXPECT_LE(100 * tile, 104 * tile_rows * in_file) << type.name << ", " << tile_rows;
    }
  }
}

}  // namespace
}  // namespace exo::kernels
