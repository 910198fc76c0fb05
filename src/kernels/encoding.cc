#include "kernels/encoding.h"

#include <array>
#include <fmt/format.h>

namespace exo::kernels {
namespace {

using Kind = Encoding::Kind;
using Scales = Encoding::Scales;

bool supports_numbers(const Encoding& e) {
  const bool group = e.group_size == 32 || e.group_size == 64 || e.group_size == 128;
  switch (e.kind) {
    case Kind::kDense:
      return true;
    case Kind::kAffine:
      return group && ((e.bits >= 2 && e.bits <= 6) || e.bits == 8);
    case Kind::kSymmetric:
      return group && (e.bits == 4 || e.bits == 5 || e.bits == 8);
    case Kind::kNonlinear:
      return e.bits == 4 && e.group_size == 32;
    case Kind::kFloat8:
      return e.bits == 8 && group;
    case Kind::kFloat4:
      return false;
  }
  return false;
}

bool supports_two_levels(const Encoding& e) {
  switch (e.kind) {
    case Kind::kAffine:
      return e.group_size == (e.bits == 2 ? 16 : 32) && (e.bits == 2 || e.bits == 4 || e.bits == 5);
    case Kind::kSymmetric:
      return e.group_size == 16 && (e.bits == 3 || e.bits == 6);
    case Kind::kNonlinear:
      return e.bits == 4 && e.group_size == 32;
    default:
      return false;
  }
}

const char* name(Kind kind) {
  constexpr std::array kNames = {"dense", "affine", "symmetric", "nonlinear", "e2m1", "e4m3"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

bool supported(const Encoding& e) {
  switch (e.scales) {
    case Scales::kNumbers:
      return supports_numbers(e);
    case Scales::kE8m0:
      return e.group_size == 32 &&
             ((e.kind == Kind::kFloat4 && e.bits == 4) || (e.kind == Kind::kFloat8 && e.bits == 8));
    case Scales::kE4m3:
      return e.group_size == 16 && e.kind == Kind::kFloat4 && e.bits == 4;
    case Scales::kTwoLevel:
      return supports_two_levels(e);
  }
  return false;
}

std::string to_string(const Encoding& encoding) {
  constexpr std::array kTypes = {"f32", "f16", "bf16"};
  constexpr std::array kScales = {"", "e8m0", "e4m3", "two-level"};
  const char* type = kTypes[static_cast<std::size_t>(encoding.type)];
  if (encoding.kind == Kind::kDense) return type;
  const bool numbers = encoding.scales == Scales::kNumbers;
  return fmt::format("{} {} bit, group {}, {}", name(encoding.kind), encoding.bits,
                     encoding.group_size,
                     numbers ? type : kScales[static_cast<std::size_t>(encoding.scales)]);
}

}  // namespace exo::kernels
