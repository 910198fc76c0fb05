// The reference for vector_ops.h: f64 inside, one rounding at the end.
#include "kernels/vector_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace exo::kernels {

float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);  // made quiet
  const std::uint32_t half = 0x7fff + ((bits >> 16) & 1);  // ties go to the even neighbour
  return static_cast<std::uint16_t>((bits + half) >> 16);
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | (fraction << 13));
  }
  if (exponent == 0) {  // subnormal or zero: fraction · 2⁻²⁴, exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  }
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // ≥ 65520: ∞
  if (magnitude < 0x38800000) {  // below 2⁻¹⁴: a multiple of 2⁻²⁴, rounded as f32 adds do
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  }
  const std::uint32_t half = 0xfff + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((magnitude + half - (112U << 23)) >> 13));
}

void scalar::rms_norm(const float* x, const float* w, float eps, float* y, std::size_t n) {
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) squares += double{x[i]} * double{x[i]};
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + double{eps});
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(double{x[i]} * inverse * double{w[i]});
  }
}

void scalar::swiglu(const float* gate, const float* up, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double z = gate[i];
    y[i] = static_cast<float>(z / (1 + std::exp(-z)) * double{up[i]});
  }
}

void scalar::softmax(float* x, std::size_t n) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, double{x[i]});
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(double{x[i]} - largest);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(std::exp(double{x[i]} - largest) / sum);
  }
}

void scalar::add(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += x[i];
}

void scalar::exponential(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<float>(std::exp(double{x[i]}));
}

void scalar::bf16_to_f32(const std::uint16_t* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = bf16_to_float(x[i]);
}

void scalar::f16_to_f32(const std::uint16_t* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = f16_to_float(x[i]);
}

void scalar::f32_to_bf16(const float* x, std::uint16_t* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = float_to_bf16(x[i]);
}

void scalar::f32_to_f16(const float* x, std::uint16_t* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = float_to_f16(x[i]);
}

}  // namespace exo::kernels
