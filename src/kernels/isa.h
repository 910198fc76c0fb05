// The instruction sets that kernels are written for, which of them this machine has, and the choice
// among a routine's variants.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace exo::kernels {

enum class Isa : std::uint8_t {
  kScalar,
  kAvx2,
  kAvx512,
  kAvx512Bf16
};  // each one includes those before it

std::string_view name(Isa isa);
// "scalar", "avx2", "avx512", "avx512bf16". Errors: kInvalidInput.
Result<Isa> isa_from(std::string_view text);

// What the processor (and the system: saved registers) supports, narrowest first; kScalar is always
// in it.
std::vector<Isa> available_isas();

// The instruction set in use: the widest available, unless set_isa chose another. Set once at
// start-up, before any kernel runs.
Isa active_isa();
// Errors: kUnsupported: this processor lacks it.
Result<void> set_isa(Isa isa);

// A routine's variants; a missing one is stood in for by the next narrower.
template <typename Fn>
struct Variants {
  Fn* scalar;
  Fn* avx2 = nullptr;
  Fn* avx512 = nullptr;
  Fn* avx512bf16 = nullptr;

  constexpr Fn* pick(Isa isa) const {
    if (isa >= Isa::kAvx512Bf16 && avx512bf16 != nullptr) return avx512bf16;
    if (isa >= Isa::kAvx512 && avx512 != nullptr) return avx512;
    if (isa >= Isa::kAvx2 && avx2 != nullptr) return avx2;
    return scalar;
  }
  template <typename... Args>
  auto operator()(Args... args) const {
    return pick(active_isa())(args...);
  }
};

}  // namespace exo::kernels

#if defined(__x86_64__)
#define EXO_X86(...) __VA_ARGS__
#else
#define EXO_X86(...)
#endif
