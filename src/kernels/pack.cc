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

std::size_t block_bytes(RowLayout layout) {
  switch (layout) {
    case RowLayout::kQ4_0:
      return 18;
    case RowLayout::kQ4_1:
      return 20;
    case RowLayout::kQ8_0:
      return 34;
    default:
      return 0;
  }
}

// Bytes of one row in the file (of its codes, for kStream).
std::size_t row_bytes(const RowSource& source) {
  switch (source.layout) {
    case RowLayout::kDense:
      return source.cols * size_of(source.encoding.type);
    case RowLayout::kStream:
      return source.cols * source.encoding.bits / 8;
    default:
      return source.cols / kBlockColumns * block_bytes(source.layout);
  }
}

// 32 codes out of a little-endian bit stream that begins at a byte.
void unpack_stream(const std::byte* bytes, std::size_t bits, std::uint8_t* codes) {
  const std::uint64_t mask = (1U << bits) - 1;
  for (std::size_t i = 0; i < kBlockColumns; i += 8, bytes += bits, codes += 8) {
    std::uint64_t word = 0;  // eight codes fill `bits` bytes
    std::memcpy(&word, bytes, bits);
    for (std::size_t j = 0; j < 8; ++j)
      codes[j] = static_cast<std::uint8_t>((word >> (bits * j)) & mask);
  }
}

void unpack_stream4(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 16; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(bytes[i]);
    codes[2 * i] = byte & 15;
    codes[2 * i + 1] = byte >> 4;
  }
}

// 32 codes of GGUF's half-split nibbles.
void unpack_nibbles(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 16; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(bytes[i]);
    codes[i] = byte & 15;
    codes[i + 16] = byte >> 4;
  }
}

// Signed bytes become unsigned codes with zero point 128.
void unpack_signed(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kBlockColumns; ++i) {
    codes[i] = static_cast<std::uint8_t>(std::to_integer<std::uint8_t>(bytes[i]) ^ 0x80U);
  }
}

void read_codes(const RowSource& source, const std::byte* row, std::size_t block,
                std::uint8_t* codes) {
  switch (source.layout) {
    case RowLayout::kQ4_0:
      return unpack_nibbles(row + block * 18 + 2, codes);
    case RowLayout::kQ4_1:
      return unpack_nibbles(row + block * 20 + 4, codes);
    case RowLayout::kQ8_0:
      return unpack_signed(row + block * 34 + 2, codes);
    case RowLayout::kStream: {
      const std::byte* bytes = row + block * 4 * source.encoding.bits;
      if (source.encoding.bits == 8) {
        std::memcpy(codes, bytes, kBlockColumns);
      } else if (source.encoding.bits == 4) {
        unpack_stream4(bytes, codes);
      } else {
        unpack_stream(bytes, source.encoding.bits, codes);
      }
      return;
    }
    case RowLayout::kDense:
      return;
  }
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
    if (source_.encoding.kind == Encoding::Kind::kDense) return pack_dense();
    const std::size_t used = source_.cols / source_.encoding.group_size;
    for (std::size_t group = 0; group < used; ++group) {
      if (!pack_header(group)) return false;
      pack_codes(group);
    }
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

  // Scales, then biases, of all lanes.
  bool pack_header(std::size_t group) {
    const std::size_t size = size_of(source_.encoding.type);
    std::byte* header = tile_ + layout_.header_at(group);
    const bool has_bias = source_.encoding.kind == Encoding::Kind::kAffine;
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const auto [scale, bias] = scale_and_bias(rows_[lane], group);
      if (!is_finite(source_.encoding.type, scale)) return false;
      std::memcpy(header + lane * size, scale, size);
      if (!has_bias) continue;
      if (!is_finite(source_.encoding.type, bias)) return false;
      std::memcpy(header + (layout_.tile_rows + lane) * size, bias, size);
    }
    return true;
  }

  std::pair<const std::byte*, const std::byte*> scale_and_bias(std::size_t row,
                                                               std::size_t group) const {
    if (source_.layout != RowLayout::kStream) {
      const std::byte* block =
          source_.codes + row * row_bytes(source_) + group * block_bytes(source_.layout);
      return {block, block + 2};
    }
    const std::size_t at = (row * (source_.cols / source_.encoding.group_size) + group) *
                           size_of(source_.encoding.type);
    return {source_.scales + at, source_.biases == nullptr ? nullptr : source_.biases + at};
  }

  void pack_codes(std::size_t group) {
    const std::size_t blocks = source_.encoding.group_size / kBlockColumns;
    const std::size_t stride = row_bytes(source_);
    std::byte* out = tile_ + layout_.codes_at(group);
    for (std::size_t b = 0; b < blocks; ++b) {
      alignas(64) std::uint8_t codes[kMaxTileRows][kBlockColumns] = {};
      for (std::size_t lane = 0; lane < lanes_; ++lane) {
        read_codes(source_, source_.codes + rows_[lane] * stride, group * blocks + b, codes[lane]);
      }
      pack_block(codes, out + b * 4 * layout_.tile_rows * source_.encoding.bits);
    }
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
    if (source.encoding.kind != Encoding::Kind::kDense)
      EXO_CHECK(source.cols % source.encoding.group_size == 0);
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

}  // namespace exo::kernels
