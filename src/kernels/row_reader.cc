#include "kernels/row_reader.h"

#include <cstring>
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

const std::byte* block_of(RowLayout layout, const std::byte* row, std::size_t first_column) {
  const BlockFormat format = block_format(layout);
  return row + first_column / format.columns * format.bytes;
}

unsigned byte_at(const std::byte* bytes, std::size_t index) {
  return std::to_integer<unsigned>(bytes[index]);
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
    const unsigned byte = byte_at(bytes, i);
    codes[2 * i] = byte & 15;
    codes[2 * i + 1] = static_cast<std::uint8_t>(byte >> 4);
  }
}

// `count` codes of half-split nibbles: byte j holds code j and code j + count/2.
void unpack_nibbles(const std::byte* bytes, std::size_t count, std::uint8_t* codes) {
  for (std::size_t i = 0; i < count / 2; ++i) {
    const unsigned byte = byte_at(bytes, i);
    codes[i] = byte & 15;
    codes[i + count / 2] = static_cast<std::uint8_t>(byte >> 4);
  }
}

// The fifth bits, bit i of a word for code i.
void add_fifth_bits(const std::byte* bytes, std::uint8_t* codes) {
  const auto bits = load<std::uint32_t>(bytes);
  for (std::size_t i = 0; i < kBlockColumns; ++i)
    codes[i] = static_cast<std::uint8_t>(codes[i] | ((bits >> i) & 1U) << 4U);
}

// Signed bytes become unsigned codes with zero point 128.
void unpack_signed(const std::byte* bytes, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kBlockColumns; ++i)
    codes[i] = static_cast<std::uint8_t>(byte_at(bytes, i) ^ 0x80U);
}

// codes[l] |= ((bytes[l] >> shift) & mask) << to
void add_bits(const std::byte* bytes, unsigned shift, unsigned mask, unsigned to,
              std::uint8_t* codes) {
  for (std::size_t l = 0; l < kBlockColumns; ++l)
    codes[l] = static_cast<std::uint8_t>(codes[l] | ((byte_at(bytes, l) >> shift) & mask) << to);
}

// Block j of 8 of a super-block. Source: gguf.md 2.4, whose H is j / 4 and g is j % 4.
void read_super_codes(RowLayout layout, const std::byte* block, unsigned j, std::uint8_t* codes) {
  const unsigned half = j / 4, part = j % 4;
  const std::byte* q = block + block_format(layout).codes;
  std::memset(codes, 0, kBlockColumns);
  switch (layout) {
    case RowLayout::kQ2K:
      return add_bits(q + 32 * half, 2 * part, 3, 0, codes);
    case RowLayout::kQ3K:
      add_bits(q + 32 * half, 2 * part, 3, 0, codes);
      return add_bits(block, j, 1, 2, codes);
    case RowLayout::kQ4K:
      return add_bits(q + 32 * (j / 2), 4 * (j % 2), 15, 0, codes);
    case RowLayout::kQ5K:
      add_bits(q + 32 * (j / 2), 4 * (j % 2), 15, 0, codes);
      return add_bits(block + 16, j, 1, 4, codes);
    case RowLayout::kQ6K:
      add_bits(q + 64 * half + 32 * (part % 2), 4 * (part / 2), 15, 0, codes);
      return add_bits(block + 128 + 32 * half, 2 * part, 3, 4, codes);
    case RowLayout::kIq4Xs:
      return unpack_nibbles(q + 16 * j, kBlockColumns, codes);
    default:
      std::unreachable();
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

std::size_t row_bytes(const RowSource& source) {
  switch (source.layout) {
    case RowLayout::kDense:
      return source.cols * size_of(source.encoding.type);
    case RowLayout::kStream:
      return source.cols * source.encoding.bits / 8;
    case RowLayout::kFloat8Squares:
      return source.cols;
    default: {
      const BlockFormat format = block_format(source.layout);
      return source.cols / format.columns * format.bytes;
    }
  }
}

void read_codes(const RowSource& source, const std::byte* row, std::size_t block,
                std::uint8_t* codes) {
  const RowLayout layout = source.layout;
  const std::byte* const in_file = block_of(layout, row, block * kBlockColumns);
  const std::byte* const q = in_file + block_format(layout).codes;
  switch (layout) {
    case RowLayout::kQ4_0:
    case RowLayout::kQ4_1:
    case RowLayout::kIq4Nl:
    case RowLayout::kMxfp4:
      return unpack_nibbles(q, kBlockColumns, codes);
    case RowLayout::kQ5_0:
    case RowLayout::kQ5_1:
      unpack_nibbles(q, kBlockColumns, codes);
      return add_fifth_bits(q - 4, codes);
    case RowLayout::kQ8_0:
      return unpack_signed(q, codes);
    case RowLayout::kNvfp4:  // groups of 16 are half-split on their own
      unpack_nibbles(q + block % 2 * 16, 16, codes);
      return unpack_nibbles(q + block % 2 * 16 + 8, 16, codes + 16);
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
    case RowLayout::kFloat8Squares:
      std::memcpy(codes, row + block * kBlockColumns, kBlockColumns);
      return;
    case RowLayout::kDense:
      return;
    default:
      return read_super_codes(layout, in_file, static_cast<unsigned>(block % 8), codes);
  }
}

ScaleAddress find_scale(const RowSource& source, std::size_t row, std::size_t group) {
  const Encoding& encoding = source.encoding;
  const std::size_t size =
      encoding.scales == Encoding::Scales::kNumbers ? size_of(encoding.type) : 1;
  if (source.layout == RowLayout::kStream) {
    const std::size_t at = (row * (source.cols / encoding.group_size) + group) * size;
    return {source.scales + at, source.biases == nullptr ? nullptr : source.biases + at};
  }
  if (source.layout == RowLayout::kFloat8Squares) {
    const std::size_t squares = divide_up<std::size_t>(source.cols, kFloat8Square);
    return {source.scales + (row / kFloat8Square * squares + group) * size};
  }
  const std::size_t column = group * encoding.group_size;
  const std::byte* block = block_of(source.layout, source.codes + row * row_bytes(source), column);
  const std::size_t within = column % block_format(source.layout).columns / encoding.group_size;
  return {block + within * size, has_bias(encoding) ? block + size : nullptr};
}

SuperScales read_super_scales(const RowSource& source, const std::byte* row, std::size_t block) {
  const std::byte* b = block_of(source.layout, row, block * kSuperBlock);
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
