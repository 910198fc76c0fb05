#include "kernels/pack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "core/check.h"
#include "kernels/isa.h"
#include "kernels/row_reader.h"
#include "kernels/tile_layout.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kMaxTileRows = 16;
constexpr std::size_t kQuads = kBlockColumns / 4;

std::size_t tile_rows_of(Isa isa) { return isa == Isa::kAvx2 ? 8 : 16; }

bool is_finite(FloatType type, const std::byte* number) {
  switch (type) {
    case FloatType::kF32:
      return (exo::load<std::uint32_t>(number) & 0x7f800000U) != 0x7f800000U;
    case FloatType::kF16:
      return (exo::load<std::uint16_t>(number) & 0x7c00U) != 0x7c00U;
    case FloatType::kBf16:
      return (exo::load<std::uint16_t>(number) & 0x7f80U) != 0x7f80U;
  }
  return false;
}

// Packs one tile; the source's rows of its lanes are looked up once.
class TilePacker {
 public:
  TilePacker(const RowSource& source, const TileLayout& layout, std::byte* tile,
             std::size_t first_row)
      : source_(source),
        layout_(layout),
        tile_(tile),
        lanes_(std::min(layout.tile_rows, source.rows - first_row)) {
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const std::size_t row = first_row + lane;
      rows_[lane] = source.row_map.empty() ? row : source.row_map[row];
    }
  }

  // False: a scale, bias or number is NaN or infinite.
  bool pack() {
    const Encoding& encoding = source_.encoding;
    if (encoding.kind == Encoding::Kind::kDense) return pack_dense();
    if (encoding.scales == Encoding::Scales::kTwoLevel) {
      for (std::size_t block = 0; block < source_.cols / kSuperBlock; ++block)
        if (!pack_super_scales(block)) return false;
    } else {
      for (std::size_t group = 0; group < divide_up<std::size_t>(source_.cols, encoding.group_size);
           ++group)
        if (!pack_scales(group)) return false;
    }
    for (std::size_t block = 0; block < source_.cols / kBlockColumns; ++block)
      if (!pack_codes(block)) return false;
    return true;
  }

 private:
  bool pack_dense() {
    const std::size_t size = size_of(source_.encoding.type), stride = row_bytes(source_);
    const bool pairs = source_.encoding.type == FloatType::kBf16;
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const std::byte* row = source_.codes + rows_[lane] * stride;
      for (std::size_t col = 0; col < source_.cols; ++col) {
        const std::byte* number = row + col * size;
        if (!is_finite(source_.encoding.type, number)) return false;
        const std::size_t index = pairs ? (col / 2 * layout_.tile_rows + lane) * 2 + col % 2
                                        : col * layout_.tile_rows + lane;
        std::memcpy(tile_ + index * size, number, size);
      }
    }
    return true;
  }

  // A group's scale and bias, of all lanes.
  bool pack_scales(std::size_t group) {
    const Encoding& encoding = source_.encoding;
    const HeadOffsets at =
        head_offsets(encoding, layout_.tile_rows, group % layout_.groups_per_chunk);
    std::byte* head = tile_ + layout_.head_at(group);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const ScaleAddress from = find_scale(source_, rows_[lane], group);
      if (encoding.scales != Encoding::Scales::kNumbers) {
        const auto byte = scale_byte(std::to_integer<std::uint8_t>(*from.scale));
        if (!byte) return false;
        head[at.scale + lane] = std::byte{*byte};
        continue;
      }
      const std::size_t size = size_of(encoding.type);
      if (!is_finite(encoding.type, from.scale)) return false;
      std::memcpy(head + at.scale + lane * size, from.scale, size);
      if (!has_bias(encoding)) continue;
      if (!is_finite(encoding.type, from.bias)) return false;
      std::memcpy(head + at.bias + lane * size, from.bias, size);
    }
    return true;
  }

  // GGUF's E4M3 scales have no sign, and 0x7f is zero (gguf.md 2.3). Nothing: a scale that is NaN.
  std::optional<std::uint8_t> scale_byte(std::uint8_t byte) const {
    if (source_.layout != RowLayout::kNvfp4) {
      const bool e8m0 = source_.encoding.scales == Encoding::Scales::kE8m0;
      const bool nan = e8m0 ? byte == 0xff : (byte & 0x7f) == 0x7f;
      return nan ? std::nullopt : std::optional(byte);
    }
    byte &= 0x7f;
    return byte == 0x7f ? std::uint8_t{0} : byte;
  }

  bool pack_super_scales(std::size_t block) {
    const Encoding& encoding = source_.encoding;
    const std::size_t groups = layout_.groups_per_chunk, rows = layout_.tile_rows;
    std::byte* head = tile_ + layout_.head_at(block * groups);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const SuperScales scales =
          read_super_scales(source_, source_.codes + rows_[lane] * row_bytes(source_), block);
      if ((scales.d & 0x7c00U) == 0x7c00U || (scales.dmin & 0x7c00U) == 0x7c00U) return false;
      store(head + 2 * lane, scales.d);
      if (has_bias(encoding)) store(head + 2 * (rows + lane), scales.dmin);
      for (std::size_t group = 0; group < groups; ++group) {
        const HeadOffsets at = head_offsets(encoding, rows, group);
        head[at.scale + lane] = std::byte{scales.scale[group]};
        if (at.bias != at.scale) head[at.bias + lane] = std::byte{scales.bias[group]};
      }
    }
    return true;
  }

  bool pack_codes(std::size_t block) {
    const std::size_t stride = row_bytes(source_);
    alignas(64) std::uint8_t codes[kMaxTileRows][kBlockColumns] = {};
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      read_codes(source_, source_.codes + rows_[lane] * stride, block, codes[lane]);
      if (source_.encoding.kind == Encoding::Kind::kFloat8 && !order_float8(codes[lane]))
        return false;
    }
    pack_block(codes, tile_ + layout_.codes_at(block));
    return true;
  }

  // Swaps the inner columns of each quad; false: a code is NaN.
  static bool order_float8(std::uint8_t* codes) {
    bool finite = true;
    for (std::size_t i = 0; i < kBlockColumns; i += 4) {
      std::swap(codes[i + 1], codes[i + 2]);
      for (std::size_t k = 0; k < 4; ++k) finite &= (codes[i + k] & 0x7f) != 0x7f;
    }
    return finite;
  }

  void pack_block(const std::uint8_t (&codes)[kMaxTileRows][kBlockColumns], std::byte* out) {
    // Word r of quads[q] holds the four codes of lane r in quad q; shifting and joining whole words
    // moves all four at once, since a code and its shift stay within their byte.
    alignas(64) std::uint32_t quads[kQuads][kMaxTileRows];
    for (std::size_t lane = 0; lane < layout_.tile_rows; ++lane) {
      for (std::size_t q = 0; q < kQuads; ++q) std::memcpy(&quads[q][lane], &codes[lane][4 * q], 4);
    }
    const BitPlanes planes = bit_planes(source_.encoding.bits);
    for (std::size_t p = 0, shift = 0; p < planes.count; ++p) {
      const std::size_t bits = planes.bits[p], per_vector = 8 / bits;
      const std::uint32_t mask = ((1U << bits) - 1) * 0x01010101U;
      for (std::size_t first = 0; first < kQuads; first += per_vector) {
        alignas(64) std::uint32_t vector[kMaxTileRows] = {};
        for (std::size_t s = 0; s < per_vector; ++s) {
          for (std::size_t lane = 0; lane < layout_.tile_rows; ++lane) {
            vector[lane] |= ((quads[first + s][lane] >> shift) & mask) << (s * bits);
          }
        }
        std::memcpy(out, vector, 4 * layout_.tile_rows);
        out += 4 * layout_.tile_rows;
      }
      shift += bits;
    }
  }

  const RowSource& source_;
  const TileLayout& layout_;
  std::byte* tile_;
  std::size_t lanes_;
  std::array<std::size_t, kMaxTileRows> rows_{};
};

void check_sources(std::span<const RowSource> sources, Arrangement arrangement) {
  EXO_CHECK(!sources.empty());
  for (const RowSource& source : sources) {
    EXO_CHECK(source.encoding == sources[0].encoding && source.cols == sources[0].cols);
    EXO_CHECK(source.rows > 0 && source.cols > 0);
    EXO_CHECK(source.row_map.empty() || source.row_map.size() == source.rows);
    if (source.encoding.kind == Encoding::Kind::kDense) continue;
    const bool two_level = source.encoding.scales == Encoding::Scales::kTwoLevel;
    const std::size_t unit = source.layout == RowLayout::kFloat8Squares ? kBlockColumns
                             : two_level                                ? kSuperBlock
                             : source.layout == RowLayout::kNvfp4       ? 64
                             : source.layout == RowLayout::kStream
                                 ? std::max<std::size_t>(source.encoding.group_size, kBlockColumns)
                                 : source.encoding.group_size;
    EXO_CHECK(source.cols % unit == 0);
  }
  if (arrangement == Arrangement::kInterleaved) {
    EXO_CHECK(sources.size() == 2 && sources[0].rows == sources[1].rows);
  }
}

Result<Matrix> empty_matrix(std::span<const RowSource> sources, Arrangement arrangement) {
  Matrix matrix;
  matrix.encoding = sources[0].encoding;
  matrix.cols = sources[0].cols;
  matrix.tile_rows = tile_rows_of(active_isa());
  const TileLayout layout = tile_layout(matrix.encoding, matrix.cols, matrix.tile_rows);
  matrix.padded_cols = layout.padded_cols;
  matrix.tile_bytes = layout.tile_bytes;
  matrix.interleaved = arrangement == Arrangement::kInterleaved;
  for (const RowSource& source : sources) {
    matrix.part_rows.push_back(source.rows);
    matrix.part_tiles.push_back(divide_up(source.rows, matrix.tile_rows));
    matrix.rows += source.rows;
    matrix.tiles += matrix.part_tiles.back();
  }
  EXO_TRY(matrix.data, Buffer::allocate(matrix.tiles * matrix.tile_bytes));
  return matrix;
}

}  // namespace

Result<Matrix> pack(
    std::span<const RowSource> sources, Arrangement arrangement, ThreadPool& pool,
    FunctionRef<void(std::size_t source, std::size_t begin, std::size_t end)> consumed) {
  check_sources(sources, arrangement);
  EXO_TRY(Matrix matrix, empty_matrix(sources, arrangement));
  const TileLayout layout = tile_layout(matrix.encoding, matrix.cols, matrix.tile_rows);
  // Large enough that dropping pages is worth a system call, small enough to share the work evenly.
  constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  const std::size_t grain = std::max<std::size_t>(1, kChunkBytes / matrix.tile_bytes);

  std::atomic<bool> finite = true;
  std::size_t first_tile = 0;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const RowSource& source = sources[s];
    const std::size_t step = matrix.interleaved ? 2 : 1,
                      offset = matrix.interleaved ? s : first_tile;
    pool.parallel_for(matrix.part_tiles[s], grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end && finite.load(std::memory_order_relaxed); ++t) {
        std::byte* tile = matrix.data.data() + (offset + t * step) * matrix.tile_bytes;
        if (!TilePacker(source, layout, tile, t * matrix.tile_rows).pack()) finite = false;
      }
      if (source.row_map.empty()) {
        consumed(s, begin * matrix.tile_rows, std::min(source.rows, end * matrix.tile_rows));
      }
    });
    first_tile += matrix.part_tiles[s];
  }
  if (!finite) return fail(ErrorCode::kInvalidInput, "a weight or its scale is NaN or infinite");
  return matrix;
}

Result<Matrix> pack(std::span<const RowSource> sources, Arrangement arrangement, ThreadPool& pool) {
  return pack(sources, arrangement, pool, [](std::size_t, std::size_t, std::size_t) {});
}

Result<Matrix> zero_matrix(const Encoding& encoding, std::size_t rows, std::size_t cols) {
  const RowSource source{.encoding = encoding, .rows = rows, .cols = cols};
  return empty_matrix(std::span(&source, 1), Arrangement::kStacked);
}

std::size_t packed_bytes(const Encoding& encoding, std::size_t rows, std::size_t cols) {
  const std::size_t tile_rows = tile_rows_of(active_isa());
  return divide_up(rows, tile_rows) * tile_layout(encoding, cols, tile_rows).tile_bytes;
}

}  // namespace exo::kernels
