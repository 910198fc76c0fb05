#include "kernels/tile_reader.h"

#include <cmath>
#include <utility>

#include "core/bytes.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

using Kind = Encoding::Kind;
using Scales = Encoding::Scales;

std::uint8_t byte_at(const std::byte* bytes, std::size_t index) {
  return std::to_integer<std::uint8_t>(bytes[index]);
}

float f16_at(const std::byte* numbers, std::size_t index) {
  return f16_to_float(load<std::uint16_t>(numbers + 2 * index));
}

}  // namespace

float float8_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

float e8m0_value(std::uint8_t byte) { return std::ldexp(1.0F, byte - 127); }

float TileReader::number_at(const std::byte* numbers, std::size_t index) const {
  switch (encoding_.type) {
    case FloatType::kF32:
      return load<float>(numbers + 4 * index);
    case FloatType::kF16:
      return f16_at(numbers, index);
    case FloatType::kBf16:
      return bf16_to_float(load<std::uint16_t>(numbers + 2 * index));
  }
  std::unreachable();
}

float TileReader::number(std::size_t lane, std::size_t col) const {
  const std::size_t rows = layout_.tile_rows;
  const bool pairs = encoding_.type == FloatType::kBf16;
  return number_at(tile_, pairs ? (col / 2 * rows + lane) * 2 + col % 2 : col * rows + lane);
}

GroupScale TileReader::scale(std::size_t lane, std::size_t group) const {
  const std::byte* head = tile_ + layout_.head_at(group);
  const std::size_t rows = layout_.tile_rows;
  const HeadOffsets at = head_offsets(encoding_, rows, group % layout_.groups_per_chunk);
  const float half = encoding_.kind == Kind::kFloat4 ? 0.5F : 1.0F;
  switch (encoding_.scales) {
    case Scales::kNumbers:
      return {.scale = number_at(head + at.scale, lane),
              .bias = has_bias(encoding_) ? number_at(head + at.bias, lane) : 0.0F};
    case Scales::kE8m0:
      return {.scale = static_cast<float>(std::ldexp(half, byte_at(head + at.scale, lane) - 127))};
    case Scales::kE4m3:
      return {.scale = half * float8_value(byte_at(head + at.scale, lane))};
    case Scales::kTwoLevel:
      break;
  }
  const float d = f16_at(head, lane);
  const std::uint8_t first = byte_at(head + at.scale, lane);
  if (!has_bias(encoding_))
    return {.scale = d * static_cast<float>(static_cast<std::int8_t>(first))};
  const bool nibbles = at.scale == at.bias;
  const unsigned scale = nibbles ? first & 15U : first;
  const unsigned bias = nibbles ? first >> 4U : byte_at(head + at.bias, lane);
  return {.scale = d * static_cast<float>(scale),
          .bias = -(f16_at(head, rows + lane) * static_cast<float>(bias))};
}

unsigned TileReader::code(std::size_t lane, std::size_t col) const {
  const std::size_t vector = 4 * layout_.tile_rows, quad = col % kBlockColumns / 4;
  const std::byte* plane = tile_ + layout_.codes_at(col / kBlockColumns);
  const BitPlanes planes = bit_planes(encoding_.bits);
  unsigned code = 0;
  for (std::size_t p = 0, shift = 0; p < planes.count; ++p) {
    const std::size_t bits = planes.bits[p], quads = 8 / bits;
    const unsigned byte = byte_at(plane, quad / quads * vector + 4 * lane + col % 4);
    code |= ((byte >> (quad % quads * bits)) & ((1U << bits) - 1)) << shift;
    shift += bits;
    plane += vector * bits;
  }
  return code;
}

float TileReader::value(std::size_t lane, std::size_t col) const {
  switch (encoding_.kind) {
    case Kind::kDense:
      return number(lane, col);
    case Kind::kAffine:
      return static_cast<float>(code(lane, col));
    case Kind::kSymmetric:
      return static_cast<float>(static_cast<int>(code(lane, col)) - (1 << (encoding_.bits - 1)));
    case Kind::kNonlinear:
      return kNonlinearValues[code(lane, col)];
    case Kind::kFloat4:
      return kFloat4Doubled[code(lane, col)];
    case Kind::kFloat8: {
      const std::size_t place = col % 4;  // columns 1 and 2 of a quad are swapped
      const std::size_t swapped = place == 1 ? col + 1 : place == 2 ? col - 1 : col;
      return float8_value(static_cast<std::uint8_t>(code(lane, swapped)));
    }
  }
  std::unreachable();
}

}  // namespace exo::kernels
