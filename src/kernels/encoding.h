// How a weight is stored: w = scale · value(code) + bias per group of columns, or a plain number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace exo::kernels {

enum class FloatType : std::uint8_t { kF32, kF16, kBf16 };

constexpr std::size_t size_of(FloatType type) { return type == FloatType::kF32 ? 4 : 2; }

// Columns of a super-block: what shares the f16 factors of two-level scales.
inline constexpr std::size_t kSuperBlock = 256;

// What the tiles of a matrix hold. Only the combinations that supported() names exist.
struct Encoding {
  enum class Kind : std::uint8_t {
    kDense,      // numbers of `type`
    kAffine,     // w = scale·code + bias
    kSymmetric,  // w = scale·(code − 2^(bits−1))
    kNonlinear,  // w = scale·nonlinear_values[code], 4 bits: GGUF's IQ4
    kFloat4,     // w = scale·float4_values[code]: E2M1
    kFloat8,     // w = scale·float8_value(code): E4M3
  };
  enum class Scales : std::uint8_t {
    kNumbers,   // numbers of `type`, one per group; affine: a bias beside each
    kE8m0,      // bytes: 2^(byte − 127)
    kE4m3,      // bytes: float8_value(byte)
    kTwoLevel,  // f16 factors d (and dmin) per super-block, byte codes per group: scale = d·code,
                // bias = −dmin·code; affine of 2 bits: both codes in one byte, the scale's lowest
  };
  Kind kind = Kind::kDense;
  FloatType type = FloatType::kF32;
  std::uint8_t bits = 0;         // 2, 3, 4, 5, 6, 8 (0 for dense)
  std::uint16_t group_size = 0;  // 16, 32, 64, 128 columns (0 for dense)
  Scales scales = Scales::kNumbers;

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

constexpr bool has_bias(const Encoding& encoding) {
  return encoding.kind == Encoding::Kind::kAffine;
}

// Whether `fast` precision multiplies it with int8 activations; the others take f32 in either.
constexpr bool has_integer_codes(const Encoding& encoding) {
  return encoding.kind != Encoding::Kind::kDense && encoding.kind != Encoding::Kind::kFloat8;
}

// The combinations that have kernels. Numbers as scales: affine of any width and symmetric of 4, 5
// and 8 bits with groups of 32, 64, 128; nonlinear with groups of 32; float8 with 32 to 128. E8M0:
// float4 and float8, 32. E4M3: float4, 16. Two-level: affine 2 bits (16), 4 and 5 bits (32);
// symmetric 3 and 6 bits (16); nonlinear (32).
bool supported(const Encoding& encoding);

// GGUF's IQ4 values, and E2M1 doubled, so that they are whole numbers (gguf.md 2.3).
inline constexpr std::int8_t kNonlinearValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kFloat4Doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                   0, -1, -2, -3, -4, -6, -8, -12};

// "affine 4 bit, group 64, bf16"
std::string to_string(const Encoding& encoding);

}  // namespace exo::kernels
