// The 16-bit floating-point types, one number at a time: exact to f32, rounded to nearest (ties to even) from it.
#pragma once

#include <cstdint>

namespace exo {

float bf16_to_float(std::uint16_t bits);
float f16_to_float(std::uint16_t bits);  // IEEE binary16, subnormals included
std::uint16_t float_to_bf16(float value);
std::uint16_t float_to_f16(float value);  // beyond 65519: infinity

}  // namespace exo
