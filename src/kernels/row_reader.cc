#include "kernels/row_reader.h"

#include <cstring>
#include <span>
#include <utility>

#include "core/bytes.h"
#include "kernels/tile_layout.h"

namespace exo::kernels {
namespace {

// A file's block, and where its codes begin in it.
struct BlockFormat {
  std::size_t columns = kBlockColumns, bytes = 0, codes = 0;
};

// Source: gguf.md 2.1, 2.3, 2.4.
constexpr BlockFormat block_format(RowLayout layout) {
  switch (layout) {
    case RowLayout::kQ4_0:
      return {.bytes = 18, .codes = 2};
    case RowLayout::kQ4_1:
      return {.bytes = 20, .codes = 4};
    case RowLayout::kQ5_0:
      return {.bytes = 22, .codes = 6};
    case RowLayout::kQ5_1:
      return {.bytes = 24, .codes = 8};
    case RowLayout::kQ8_0:
      return {.bytes = 34, .codes = 2};
    case RowLayout::kIq4Nl:
      return {.bytes = 18, .codes = 2};
    case RowLayout::kMxfp4:
      return {.bytes = 17, .codes = 1};
    case RowLayout::kNvfp4:
      return {.columns = 64, .bytes = 36, .codes = 4};
    case RowLayout::kQ2K:
      return {.columns = kSuperBlock, .bytes = 84, .codes = 16};
    case RowLayout::kQ3K:
      return {.columns = kSuperBlock, .bytes = 110, .codes = 32};
    case RowLayout::kQ4K:
      return {.columns = kSuperBlock, .bytes = 144, .codes = 16};
    case RowLayout::kQ5K:
      return {.columns = kSuperBlock, .bytes = 176, .codes = 48};
    case RowLayout::kQ6K:
      return {.columns = kSuperBlock, .bytes = 210, .codes = 0};
    case RowLayout::kIq4Xs:
      return {.columns = kSuperBlock, .bytes = 136, .codes = 8};
    case RowLayout::kDense:
    case RowLayout::kStream:
    case RowLayout::kFloat8Squares:
      return {};
  }
  std::unreachable();
}

unsigned byte_at(const std::byte* bytes, std::size_t index) {
  return std::to_integer<unsigned>(bytes[index]);
}

using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
using Bytes32 = std::uint8_t __attribute__((vector_size(32)));

// The bits of `word` in parts of `bits`, each at the bottom of its own byte: three times, halves
// move apart.
std::uint64_t spread(std::uint64_t word, unsigned bits) {
  const std::uint64_t part = (1U << bits) - 1;
  const std::uint64_t pairs = (part << bits | part) * 0x0000000100000001U;
  const std::uint64_t fours = (std::uint64_t{1} << 4 * bits) - 1;
  word = (word & fours) | (word >> 4 * bits & fours) << 32;
  word = (word & pairs) | (word >> 2 * bits & pairs) << 16;
  const std::uint64_t singles = part * 0x0001000100010001U;
  return (word & singles) | (word >> bits & singles) << 8;
}

// 32 codes out of a little-endian bit stream that begins at a byte.
template <unsigned kBits>
void unpack_stream(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kBlockColumns; i += 8, bytes += kBits) {
    std::uint64_t word = 0;  // eight codes fill kBits bytes
    std::memcpy(&word, bytes, kBits);
    word = spread(word, kBits);
    std::memcpy(codes + i, &word, sizeof word);
  }
}

// Byte i holds codes 2i and 2i + 1.
void unpack_pairs(const std::byte* bytes, std::uint8_t* codes) {
  const auto packed = load<Bytes16>(bytes);
  const Bytes16 low = packed & 15, high = packed >> 4;
  const Bytes32 both =
      __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8,
                              24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  std::memcpy(codes, &both, sizeof both);
}

void copy_codes(const std::byte* bytes, std::uint8_t* codes) {
  std::memcpy(codes, bytes, kBlockColumns);
}

// Gives `for_all` the function for streams of `bits`.
template <typename ForAll>
void read_stream(std::size_t bits, const ForAll& for_all) {
  switch (bits) {
    case 2:
      return for_all(unpack_stream<2>);
    case 3:
      return for_all(unpack_stream<3>);
    case 4:
      return for_all([](const std::byte* at, std::uint8_t* to) { unpack_pairs(at, to); });
    case 5:
      return for_all(unpack_stream<5>);
    case 6:
      return for_all(unpack_stream<6>);
    default:
      return for_all([](const std::byte* at, std::uint8_t* to) { copy_codes(at, to); });
  }
}

// Byte i holds codes i and i + 16.
void unpack_halves(const std::byte* bytes, std::uint8_t* codes) {
  const auto packed = load<Bytes16>(bytes);
  const Bytes16 low = packed & 15, high = packed >> 4;
  std::memcpy(codes, &low, sizeof low);
  std::memcpy(codes + sizeof low, &high, sizeof high);
}

// 16 codes: byte i holds codes i and i + 8.
void unpack_half_block(const std::byte* bytes, std::uint8_t* codes) {
  const auto packed = load<std::uint64_t>(bytes);
  const std::uint64_t mask = 0x0f0f0f0f0f0f0f0fU, low = packed & mask, high = packed >> 4 & mask;
  std::memcpy(codes, &low, sizeof low);
  std::memcpy(codes + sizeof low, &high, sizeof high);
}

// The fifth bits, bit i of a word for code i.
void add_fifth_bits(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 4; ++i) {
    // Each byte keeps its own bit, and the one that has it becomes 0x80 in its highest.
    constexpr std::uint64_t kOnes = 0x0101010101010101U, kOwn = 0x8040201008040201U;
    const std::uint64_t own = byte_at(bytes, i) * kOnes & kOwn;
    const std::uint64_t set = ((own + 0x7f7f7f7f7f7f7f7fU) | own) & 0x8080808080808080U;
    auto eight = load<std::uint64_t>(std::as_bytes(std::span(codes + 8 * i, 8)).data());
    eight |= set >> 3;
    std::memcpy(codes + 8 * i, &eight, sizeof eight);
  }
}

// Signed bytes become unsigned codes with zero point 128.
void unpack_signed(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kBlockColumns; ++i)
    codes[i] = static_cast<std::uint8_t>(byte_at(bytes, i) ^ 0x80U);
}

// codes[l] |= ((bytes[l] >> shift) & mask) << to, eight at a time: the mask drops what a neighbour
// shifts in.
void add_bits(const std::byte* bytes, unsigned shift, std::uint64_t mask, unsigned to,
              std::uint8_t* codes) {
  for (std::size_t l = 0; l < kBlockColumns; l += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + l, sizeof eight);
    eight |= (load<std::uint64_t>(bytes + l) >> shift & mask * 0x0101010101010101U) << to;
    std::memcpy(codes + l, &eight, sizeof eight);
  }
}

// Block j of 8 of the super-block at `block`. Source: gguf.md 2.4, whose H is j / 4 and g is j % 4.
template <RowLayout kLayout>
void read_super_codes(const std::byte* block, unsigned j, std::uint8_t* codes) {
  const unsigned half = j / 4, part = j % 4;
  const std::byte* q = block + block_format(kLayout).codes;
  if constexpr (kLayout == RowLayout::kIq4Xs) return unpack_halves(q + 16 * j, codes);
  std::memset(codes, 0, kBlockColumns);
  if constexpr (kLayout == RowLayout::kQ2K || kLayout == RowLayout::kQ3K)
    add_bits(q + 32 * half, 2 * part, 3, 0, codes);
  if constexpr (kLayout == RowLayout::kQ3K) add_bits(block, j, 1, 2, codes);
  if constexpr (kLayout == RowLayout::kQ4K || kLayout == RowLayout::kQ5K)
    add_bits(q + 32 * (j / 2), 4 * (j % 2), 15, 0, codes);
  if constexpr (kLayout == RowLayout::kQ5K) add_bits(block + 16, j, 1, 4, codes);
  if constexpr (kLayout == RowLayout::kQ6K) {
    add_bits(q + 64 * half + 32 * (part % 2), 4 * (part / 2), 15, 0, codes);
    add_bits(block + 128 + 32 * half, 2 * part, 3, 4, codes);
  }
}

// The 6-bit scale and bias codes of Q4_K and Q5_K.
void read_six_bits(const std::byte* sc, SuperScales& scales) {
  for (std::size_t j = 0; j < 4; ++j) {
    scales.scale[j] = byte_at(sc, j) & 63;
    scales.bias[j] = byte_at(sc, j + 4) & 63;
    scales.scale[j + 4] =
        static_cast<std::uint8_t>((byte_at(sc, j + 8) & 15) | byte_at(sc, j) >> 6 << 4);
    scales.bias[j + 4] =
        static_cast<std::uint8_t>(byte_at(sc, j + 8) >> 4 | byte_at(sc, j + 4) >> 6 << 4);
  }
}

}  // namespace

namespace {

std::size_t file_cols(const RowSource& source) {
  return source.file_cols > 0 ? source.file_cols : source.cols;
}

}  // namespace

std::size_t row_bytes(const RowSource& source) {
  const std::size_t cols = file_cols(source);
  switch (source.layout) {
    case RowLayout::kDense:
      return cols * size_of(source.encoding.type);
    case RowLayout::kStream:
      return cols * source.encoding.bits / 8;
    case RowLayout::kFloat8Squares:
      return cols;
    default: {
      const BlockFormat format = block_format(source.layout);
      return cols / format.columns * format.bytes;
    }
  }
}

void read_codes(const RowSource& source, const std::byte* const* rows, std::size_t lanes,
                std::size_t block, std::uint8_t (&codes)[kMaxTileRows][kBlockColumns]) {
  block += source.first_col / kBlockColumns;
  const BlockFormat format = block_format(source.layout);
  const bool stream = source.layout == RowLayout::kStream;
  const std::size_t offset = stream ? block * 4 * source.encoding.bits
                             : source.layout == RowLayout::kFloat8Squares
                                 ? block * kBlockColumns
                                 : block * kBlockColumns / format.columns * format.bytes;
  // `unpack` is compiled once per layout, with the loop around it.
  const auto for_all = [&](auto unpack) {
    for (std::size_t lane = 0; lane < lanes; ++lane) unpack(rows[lane] + offset, codes[lane]);
  };
  const auto super_blocks = [&]<RowLayout kLayout>() {
    const auto j = static_cast<unsigned>(block % (kSuperBlock / kBlockColumns));
    for_all([j](const std::byte* at, std::uint8_t* to) { read_super_codes<kLayout>(at, j, to); });
  };
  switch (source.layout) {
    case RowLayout::kQ4_0:
    case RowLayout::kQ4_1:
    case RowLayout::kIq4Nl:
    case RowLayout::kMxfp4:
      return for_all([skip = format.codes](const std::byte* at, std::uint8_t* to) {
        unpack_halves(at + skip, to);
      });
    case RowLayout::kQ5_0:
    case RowLayout::kQ5_1:
      return for_all([skip = format.codes](const std::byte* at, std::uint8_t* to) {
        unpack_halves(at + skip, to);
        add_fifth_bits(at + skip - 4, to);
      });
    case RowLayout::kQ8_0:
      return for_all([](const std::byte* at, std::uint8_t* to) { unpack_signed(at + 2, to); });
    case RowLayout::kNvfp4:  // groups of 16 are half-split on their own
      return for_all([half = 4 + block % 2 * 16](const std::byte* at, std::uint8_t* to) {
        unpack_half_block(at + half, to);
        unpack_half_block(at + half + 8, to + 16);
      });
    case RowLayout::kStream:
      return read_stream(source.encoding.bits, for_all);
    case RowLayout::kFloat8Squares:
      return for_all([](const std::byte* at, std::uint8_t* to) { copy_codes(at, to); });
    case RowLayout::kDense:
      return;
    case RowLayout::kQ2K:
      return super_blocks.operator()<RowLayout::kQ2K>();
    case RowLayout::kQ3K:
      return super_blocks.operator()<RowLayout::kQ3K>();
    case RowLayout::kQ4K:
      return super_blocks.operator()<RowLayout::kQ4K>();
    case RowLayout::kQ5K:
      return super_blocks.operator()<RowLayout::kQ5K>();
    case RowLayout::kQ6K:
      return super_blocks.operator()<RowLayout::kQ6K>();
    case RowLayout::kIq4Xs:
      return super_blocks.operator()<RowLayout::kIq4Xs>();
  }
  std::unreachable();
}

namespace {

// `count` numbers of kSize bytes, `stride` bytes apart.
template <std::size_t kSize>
void copy_strided(const std::byte* from, std::size_t stride, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * kSize, from + i * stride, kSize);
}

// Those inside of blocks. One group per block, but for NVFP4.
void read_block_scales(const RowSource& source, const std::byte* row, std::byte* scales,
                       std::byte* biases) {
  const BlockFormat format = block_format(source.layout);
  const std::size_t blocks = source.cols / format.columns;
  switch (source.layout) {
    case RowLayout::kNvfp4:
      return copy_strided<4>(row, format.bytes, blocks, scales);
    case RowLayout::kMxfp4:
      return copy_strided<1>(row, format.bytes, blocks, scales);
    default:
      copy_strided<2>(row, format.bytes, blocks, scales);
      if (biases != nullptr) copy_strided<2>(row + 2, format.bytes, blocks, biases);
  }
}

}  // namespace

void read_scales(const RowSource& source, std::size_t row, std::byte* scales, std::byte* biases) {
  const Encoding& encoding = source.encoding;
  const bool numbers = encoding.scales == Encoding::Scales::kNumbers;
  const std::size_t size = numbers ? size_of(encoding.type) : 1, group = encoding.group_size;
  const bool squares = source.layout == RowLayout::kFloat8Squares;
  if (!squares && source.layout != RowLayout::kStream) {
    const BlockFormat format = block_format(source.layout);
    const std::byte* const blocks =
        source.codes + row * row_bytes(source) + source.first_col / format.columns * format.bytes;
    return read_block_scales(source, blocks, scales, biases);
  }
  const std::size_t per_row = divide_up<std::size_t>(file_cols(source), group),
                    first =
                        (squares ? row / kFloat8Square : row) * per_row + source.first_col / group,
                    count = divide_up<std::size_t>(source.cols, group);
  std::memcpy(scales, source.scales + first * size, count * size);
  if (biases != nullptr) std::memcpy(biases, source.biases + first * size, count * size);
}

SuperScales read_super_scales(const RowSource& source, const std::byte* row, std::size_t block) {
  const std::size_t first = source.first_col / kSuperBlock;
  const std::byte* const b = row + (first + block) * block_format(source.layout).bytes;
  SuperScales scales;
  const auto signed_six = [](unsigned code) { return static_cast<std::uint8_t>(code - 32); };
  switch (source.layout) {
    case RowLayout::kQ2K:
      std::memcpy(scales.scale, b, 16);  // both codes of a group
      scales.d = load<std::uint16_t>(b + 80);
      scales.dmin = load<std::uint16_t>(b + 82);
      break;
    case RowLayout::kQ3K: {
      const std::byte* sc = b + 96;
      for (std::size_t k = 0; k < 16; ++k)
        scales.scale[k] = signed_six((byte_at(sc, k % 8) >> 4 * (k / 8) & 15) |
                                     (byte_at(sc, 8 + k % 4) >> 2 * (k / 4) & 3) << 4);
      scales.d = load<std::uint16_t>(b + 108);
      break;
    }
    case RowLayout::kQ4K:
    case RowLayout::kQ5K:
      scales.d = load<std::uint16_t>(b);
      scales.dmin = load<std::uint16_t>(b + 2);
      read_six_bits(b + 4, scales);
      break;
    case RowLayout::kQ6K:
      std::memcpy(scales.scale, b + 192, 16);
      scales.d = load<std::uint16_t>(b + 208);
      break;
    case RowLayout::kIq4Xs:
      scales.d = load<std::uint16_t>(b);
      for (std::size_t j = 0; j < 8; ++j)
        scales.scale[j] = signed_six((byte_at(b + 4, j / 2) >> 4 * (j % 2) & 15) |
                                     (load<std::uint16_t>(b + 2) >> 2 * j & 3U) << 4);
      break;
    default:
      std::unreachable();
  }
  return scales;
}

}  // namespace exo::kernels
