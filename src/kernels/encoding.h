// How a weight is stored: w = scale · (code − zero) + bias per group of columns, or a plain number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace exo::kernels {

enum class FloatType : std::uint8_t { kF32, kF16, kBf16 };

constexpr std::size_t size_of(FloatType type) { return type == FloatType::kF32 ? 4 : 2; }

// What the tiles of a matrix hold.
struct Encoding {
  enum class Kind : std::uint8_t {
    kDense,      // numbers of `type`
    kAffine,     // unsigned codes of `bits`, one scale and one bias of `type` per group: w =
                 // scale·code + bias
    kSymmetric,  // unsigned codes of `bits`, one scale of `type` per group: w = scale·(code −
                 // 2^(bits−1))
  };
  Kind kind = Kind::kDense;
  FloatType type = FloatType::kF32;
  std::uint8_t bits = 0;         // 2, 3, 4, 5, 6, 8 (0 for dense)
  std::uint16_t group_size = 0;  // 32, 64, 128 columns (0 for dense)

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

// "affine 4 bit, group 64, bf16"
std::string to_string(const Encoding& encoding);

}  // namespace exo::kernels
