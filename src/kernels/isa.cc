// Finding the processor's instruction sets: CPUID for the instructions, XCR0 for the registers that
// the system saves.
#include "kernels/isa.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace exo::kernels {
namespace {

constexpr std::array<std::pair<Isa, std::string_view>, 4> kNames = {
    {{Isa::kScalar, "scalar"},
     {Isa::kAvx2, "avx2"},
     {Isa::kAvx512, "avx512"},
     {Isa::kAvx512Bf16, "avx512bf16"}}};

#if defined(__x86_64__)

struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the processor does not know the leaf.
Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

std::uint64_t read_xcr0() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

constexpr bool all_of(std::uint64_t value, std::uint64_t bits) { return (value & bits) == bits; }

// Bit numbers: Intel SDM vol. 2A, CPUID; vol. 1, 13.3 for XCR0 (x87, SSE, AVX; opmask, upper zmm).
Isa widest_isa() {
  constexpr std::uint32_t kFmaOsxsaveF16c = (1U << 12) | (1U << 27) | (1U << 29);
  constexpr std::uint32_t kAvx2Bit = 1U << 5;
  constexpr std::uint32_t kFDqBwVl = (1U << 16) | (1U << 17) | (1U << 30) | (1U << 31);
  constexpr std::uint32_t kVnni = 1U << 11, kBf16 = 1U << 5;
  constexpr std::uint64_t kYmmSaved = 0x6, kZmmSaved = 0xe6;

  if (!all_of(cpuid(1, 0).ecx, kFmaOsxsaveF16c)) return Isa::kScalar;
  const std::uint64_t saved = read_xcr0();
  const Registers features = cpuid(7, 0);
  if (!all_of(saved, kYmmSaved) || !all_of(features.ebx, kAvx2Bit)) return Isa::kScalar;
  if (!all_of(saved, kZmmSaved) || !all_of(features.ebx, kFDqBwVl) ||
      !all_of(features.ecx, kVnni)) {
    return Isa::kAvx2;
  }
  return all_of(cpuid(7, 1).eax, kBf16) ? Isa::kAvx512Bf16 : Isa::kAvx512;
}

#else

Isa widest_isa() { return Isa::kScalar; }

#endif

std::atomic<Isa>& chosen_isa() {
  static std::atomic<Isa> isa = widest_isa();
  return isa;
}

}  // namespace

std::string_view name(Isa isa) {
  for (const auto& [candidate, text] : kNames) {
    if (candidate == isa) return text;
  }
  return "unknown";
}

Result<Isa> isa_from(std::string_view text) {
  for (const auto& [isa, candidate] : kNames) {
    if (candidate == text) return isa;
  }
  return fail(ErrorCode::kInvalidInput,
              "unknown instruction set; choose scalar, avx2, avx512 or avx512bf16",
              std::string(text));
}

std::vector<Isa> available_isas() {
  const Isa widest = widest_isa();
  std::vector<Isa> isas;
  for (const auto& [isa, text] : kNames) {
    if (isa <= widest) isas.push_back(isa);
  }
  return isas;
}

Isa active_isa() { return chosen_isa().load(std::memory_order_relaxed); }

Result<void> set_isa(Isa isa) {
  if (isa > widest_isa()) {
    return fail(ErrorCode::kUnsupported,
                "this processor lacks the instruction set; the widest it has is " +
                    std::string(name(widest_isa())),
                std::string(name(isa)));
  }
  chosen_isa().store(isa, std::memory_order_relaxed);
  return {};
}

}  // namespace exo::kernels
