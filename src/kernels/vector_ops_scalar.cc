// The reference for vector_ops.h: f64 inside, one rounding at the end.
#include "kernels/vector_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace exo::kernels {

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

void scalar::geglu(const float* gate, const float* up, float* y, std::size_t n) {
  constexpr double kRoot = 0.79788456080286535588;  // √(2/π)
  for (std::size_t i = 0; i < n; ++i) {
    const double z = gate[i];
    // (1 + tanh(t))/2 = 1/(1 + e^(−2t)), which keeps its digits where tanh is near −1
    const double gelu = z / (1 + std::exp(-2 * kRoot * (z + 0.044715 * z * z * z)));
    y[i] = static_cast<float>(gelu * double{up[i]});
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
