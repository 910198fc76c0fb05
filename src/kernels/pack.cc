#include "kernels/pack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/check.h"
#include "kernels/isa.h"
#include "kernels/pack_block.h"
#include "kernels/row_reader.h"
#include "kernels/tile_layout.h"
#include "kernels/transpose_words.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

constexpr Variants<PackBlockFn> pack_16_rows{.scalar = scalar::pack_16_rows,
                                             EXO_X86(.avx512 = avx512::pack_16_rows)};

std::size_t tile_rows_of(Isa isa) { return isa == Isa::kAvx2 ? 8 : 16; }

template <typename T>
bool all_finite(const std::byte* numbers, std::size_t count, T exponent) {
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i)
    finite &= (exo::load<T>(numbers + i * sizeof(T)) & exponent) != exponent;
  return finite;
}

bool all_finite(FloatType type, const std::byte* numbers, std::size_t count) {
  switch (type) {
    case FloatType::kF32:
      return all_finite<std::uint32_t>(numbers, count, 0x7f800000U);
    case FloatType::kF16:
      return all_finite<std::uint16_t>(numbers, count, 0x7c00U);
    case FloatType::kBf16:
      return all_finite<std::uint16_t>(numbers, count, 0x7f80U);
  }
  return false;
}

// to[lane] = element `index` of each lane's own run of `count` elements.
template <typename T>
void gather(const std::byte* runs, std::size_t count, std::size_t index, std::size_t lanes,
            std::byte* to) {
  for (std::size_t lane = 0; lane < lanes; ++lane)
    std::memcpy(to + lane * sizeof(T), runs + (lane * count + index) * sizeof(T), sizeof(T));
}

void gather(std::size_t size, const std::byte* runs, std::size_t count, std::size_t index,
            std::size_t lanes, std::byte* to) {
  if (size == 1) return gather<std::uint8_t>(runs, count, index, lanes, to);
  if (size == 2) return gather<std::uint16_t>(runs, count, index, lanes, to);
  gather<std::uint32_t>(runs, count, index, lanes, to);
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
    const std::size_t stride = row_bytes(source);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const std::size_t row = source.first_row + first_row + lane;
      rows_[lane] = source.row_map.empty() ? row : source.row_map[row];
      row_data_[lane] = source.codes + rows_[lane] * stride;
    }
  }

  // False: a scale, bias or number is NaN or infinite.
  bool pack() {
    const Encoding& encoding = source_.encoding;
    if (encoding.kind == Encoding::Kind::kDense) return pack_dense();
    if (encoding.scales == Encoding::Scales::kTwoLevel) {
      for (std::size_t block = 0; block < source_.cols / kSuperBlock; ++block)
        if (!pack_super_scales(block)) return false;
    } else if (!pack_scales()) {
      return false;
    }
    for (std::size_t block = 0; block < source_.cols / kBlockColumns; ++block)
      if (!pack_codes(block)) return false;
    return true;
  }

 private:
  bool pack_dense() {
    const FloatType type = source_.encoding.type;
    const std::size_t first_byte = source_.first_col * size_of(type),
                      whole = source_.cols * size_of(type) / 32 * 32;
    for (std::size_t lane = 0; lane < lanes_; ++lane)
      if (!all_finite(type, row_data_[lane] + first_byte, source_.cols)) return false;
    for (std::size_t at = 0; at < whole; at += 32) pack_words(at, first_byte);
    for (std::size_t col = whole / size_of(type); col < source_.cols; ++col) pack_column(col);
    return true;
  }

  // The 32 bytes of every row that begin at `at`.
  void pack_words(std::size_t at, std::size_t first_byte) {
    alignas(64) static constexpr std::byte kNothing[32] = {};
    const std::size_t rows = layout_.tile_rows;
    const std::byte* from[kMaxTileRows];
    for (std::size_t lane = 0; lane < rows; ++lane)
      from[lane] = lane < lanes_ ? row_data_[lane] + first_byte + at : kNothing;
    alignas(64) std::uint32_t words[8 * kMaxTileRows];
    transpose_words(from, rows, words);
    std::byte* to = tile_ + at * rows;
    if (source_.encoding.type != FloatType::kF16) {
      std::memcpy(to, words, 32 * rows);
      return;
    }
    for (std::size_t word = 0; word < 8; ++word) {
      for (std::size_t lane = 0; lane < rows; ++lane) {
        const std::uint32_t pair = words[word * rows + lane];
        store(to + (2 * word * rows + lane) * 2, static_cast<std::uint16_t>(pair));
        store(to + ((2 * word + 1) * rows + lane) * 2, static_cast<std::uint16_t>(pair >> 16));
      }
    }
  }

  void pack_column(std::size_t col) {
    const std::size_t size = size_of(source_.encoding.type);
    const bool pairs = source_.encoding.type == FloatType::kBf16;
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const std::size_t index = pairs ? (col / 2 * layout_.tile_rows + lane) * 2 + col % 2
                                      : col * layout_.tile_rows + lane;
      std::memcpy(tile_ + index * size, row_data_[lane] + (source_.first_col + col) * size, size);
    }
  }

  // The scales and biases of all groups and lanes.
  bool pack_scales() {
    const Encoding& encoding = source_.encoding;
    const bool numbers = encoding.scales == Encoding::Scales::kNumbers;
    const std::size_t size = numbers ? size_of(encoding.type) : 1,
                      groups = divide_up<std::size_t>(source_.cols, encoding.group_size);
    std::vector<std::byte> scales(lanes_ * groups * size),
        biases(has_bias(encoding) ? scales.size() : 0);
    for (std::size_t lane = 0; lane < lanes_; ++lane)
      read_scales(source_, rows_[lane], scales.data() + lane * groups * size,
                  biases.empty() ? nullptr : biases.data() + lane * groups * size);
    if (numbers) {
      if (!all_finite(encoding.type, scales.data(), scales.size() / size) ||
          !all_finite(encoding.type, biases.data(), biases.size() / size))
        return false;
    } else if (!fix_scale_bytes(scales)) {
      return false;
    }
    for (std::size_t group = 0; group < groups; ++group) {
      const HeadOffsets at =
          head_offsets(encoding, layout_.tile_rows, group % layout_.groups_per_chunk);
      std::byte* head = tile_ + layout_.head_at(group);
      gather(size, scales.data(), groups, group, lanes_, head + at.scale);
      if (!biases.empty()) gather(size, biases.data(), groups, group, lanes_, head + at.bias);
    }
    return true;
  }

  bool fix_scale_bytes(std::span<std::byte> scales) const {
    for (std::byte& scale : scales) {
      const auto fixed = scale_byte(std::to_integer<std::uint8_t>(scale));
      if (!fixed) return false;
      scale = std::byte{*fixed};
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
    std::array<SuperScales, kMaxTileRows> scales;
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      scales[lane] = read_super_scales(source_, row_data_[lane], block);
      const auto& [d, dmin, scale, bias] = scales[lane];
      if ((d & 0x7c00U) == 0x7c00U || (dmin & 0x7c00U) == 0x7c00U) return false;
      store(head + 2 * lane, d);
      if (has_bias(encoding)) store(head + 2 * (rows + lane), dmin);
    }
    for (std::size_t group = 0; group < groups; ++group) {
      const HeadOffsets at = head_offsets(encoding, rows, group);
      for (std::size_t lane = 0; lane < lanes_; ++lane) {
        head[at.scale + lane] = std::byte{scales[lane].scale[group]};
        if (at.bias != at.scale) head[at.bias + lane] = std::byte{scales[lane].bias[group]};
      }
    }
    return true;
  }

  bool pack_codes(std::size_t block) {
    alignas(64) std::uint8_t codes[kMaxTileRows][kBlockColumns];
    if (lanes_ < kMaxTileRows) std::memset(codes, 0, sizeof codes);
    read_codes(source_, row_data_.data(), lanes_, block, codes);
    if (source_.encoding.kind == Encoding::Kind::kFloat8)
      for (std::size_t lane = 0; lane < lanes_; ++lane)
        if (!order_float8(codes[lane])) return false;
    PackBlockFn* const pack =
        layout_.tile_rows == kMaxTileRows ? pack_16_rows.pick(active_isa()) : scalar::pack_8_rows;
    pack(codes, source_.encoding.bits, tile_ + layout_.codes_at(block));
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

  const RowSource& source_;
  const TileLayout& layout_;
  std::byte* tile_;
  std::size_t lanes_;
  std::array<std::size_t, kMaxTileRows> rows_{};
  std::array<const std::byte*, kMaxTileRows> row_data_{};
};

void check_sources(std::span<const RowSource> sources, Arrangement arrangement) {
  EXO_CHECK(!sources.empty());
  for (const RowSource& source : sources) {
    EXO_CHECK(source.encoding == sources[0].encoding && source.cols == sources[0].cols);
    EXO_CHECK(source.rows > 0 && source.cols > 0);
    EXO_CHECK(source.row_map.empty() || source.row_map.size() >= source.first_row + source.rows);
    EXO_CHECK(source.file_cols == 0 || source.first_col + source.cols <= source.file_cols);
    if (source.encoding.kind == Encoding::Kind::kDense) continue;
    const bool two_level = source.encoding.scales == Encoding::Scales::kTwoLevel;
    const std::size_t unit = source.layout == RowLayout::kFloat8Squares ? kBlockColumns
                             : two_level                                ? kSuperBlock
                             : source.layout == RowLayout::kNvfp4       ? 64
                             : source.layout == RowLayout::kStream
                                 ? std::max<std::size_t>(source.encoding.group_size, kBlockColumns)
                                 : source.encoding.group_size;
    EXO_CHECK(source.cols % unit == 0);
    EXO_CHECK(source.first_col % std::max<std::size_t>(unit, source.encoding.group_size) == 0);
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
        consumed(s, source.first_row + begin * matrix.tile_rows,
                 source.first_row + std::min(source.rows, end * matrix.tile_rows));
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
