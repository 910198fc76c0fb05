// The variants of each vector operation.
#include "kernels/vector_ops.h"

namespace exo::kernels {

// NOLINTNEXTLINE(bugprone-macro-parentheses): `op` is a name
#define EXO_VECTOR_OP(Fn, op)                                             \
  constinit const Variants<Fn> op {                                       \
    .scalar = scalar::op, EXO_X86(.avx2 = avx2::op, .avx512 = avx512::op) \
  }

EXO_VECTOR_OP(RmsNormFn, rms_norm);
EXO_VECTOR_OP(GatedFn, swiglu);
EXO_VECTOR_OP(GatedFn, geglu);
EXO_VECTOR_OP(SoftmaxFn, softmax);
EXO_VECTOR_OP(AddFn, add);
EXO_VECTOR_OP(ExpFn, exponential);
EXO_VECTOR_OP(WidenFn, bf16_to_f32);
EXO_VECTOR_OP(WidenFn, f16_to_f32);
EXO_VECTOR_OP(NarrowFn, f32_to_bf16);
EXO_VECTOR_OP(NarrowFn, f32_to_f16);

GatedFn* gated(Activation activation, Isa isa) {
  return activation == Activation::kSilu ? swiglu.pick(isa) : geglu.pick(isa);
}

}  // namespace exo::kernels
