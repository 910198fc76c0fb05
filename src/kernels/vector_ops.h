// Element-wise and reducing operations on vectors of activations. All f32, any length, any
// alignment.
//
// Tolerances against the scalar files, which compute in f64 (u = 2⁻²⁴): add and the conversions are
// exact; e^x is within 2e-6 relative (vector results below 2⁻¹²⁶ are 0; −∞ gives 0, overflow ∞, NaN
// NaN); rms_norm (n/2 + 6)·u relative; swiglu 3e-6 relative, where |silu| > 1e-36; geglu
// 3e-6 + 4·|t|·u relative, t = 2·√(2/π)·(z + 0.044715·z³), where |gelu| > 1e-36; softmax 3e-6 + (n
// + max − min)·u relative. softmax of nothing but −∞ is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/half.h"
#include "kernels/isa.h"

namespace exo::kernels {

// y[i] = x[i] · w[i] / sqrt(mean(x²) + eps).  Source: models.md 2.1. x and y may be the same.
using RmsNormFn = void(const float* x, const float* w, float eps, float* y, std::size_t n);
// y[i] = silu(gate[i]) · up[i], silu(z) = z / (1 + e^−z).
using GatedFn = void(const float* gate, const float* up, float* y, std::size_t n);
// geglu: the same with gelu(z) = z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))), the tanh form.
// x[i] = e^(x[i] − max) / Σ, in place.
using SoftmaxFn = void(float* x, std::size_t n);
// y[i] += x[i].
using AddFn = void(const float* x, float* y, std::size_t n);
// y[i] = e^x[i].
using ExpFn = void(const float* x, float* y, std::size_t n);
// Numbers to and from the 16-bit types; to: rounded to nearest, ties to even; a NaN stays one.
using WidenFn = void(const std::uint16_t* x, float* y, std::size_t n);
using NarrowFn = void(const float* x, std::uint16_t* y, std::size_t n);

// NOLINTBEGIN(readability-identifier-naming): they are called like functions
extern const Variants<RmsNormFn> rms_norm;
extern const Variants<GatedFn> swiglu, geglu;
extern const Variants<SoftmaxFn> softmax;
extern const Variants<AddFn> add;
extern const Variants<ExpFn> exponential;
extern const Variants<WidenFn> bf16_to_f32, f16_to_f32;
extern const Variants<NarrowFn> f32_to_bf16, f32_to_f16;
// NOLINTEND(readability-identifier-naming)

// What a gated feed-forward applies to its gate.
enum class Activation : std::uint8_t { kSilu, kGelu };
GatedFn* gated(Activation activation, Isa isa);

#define EXO_DECLARE_VECTOR_OPS(isa) \
  namespace isa {                   \
  RmsNormFn rms_norm;               \
  GatedFn swiglu, geglu;            \
  SoftmaxFn softmax;                \
  AddFn add;                        \
  ExpFn exponential;                \
  WidenFn bf16_to_f32, f16_to_f32;  \
  NarrowFn f32_to_bf16, f32_to_f16; \
  }
EXO_DECLARE_VECTOR_OPS(scalar)
EXO_X86(EXO_DECLARE_VECTOR_OPS(avx2) EXO_DECLARE_VECTOR_OPS(avx512))
#undef EXO_DECLARE_VECTOR_OPS

}  // namespace exo::kernels
