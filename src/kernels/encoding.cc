#include "kernels/encoding.h"

#include <array>
#include <fmt/format.h>

namespace exo::kernels {

std::string to_string(const Encoding& encoding) {
  constexpr std::array kTypes = {"f32", "f16", "bf16"};
  const char* type = kTypes[static_cast<std::size_t>(encoding.type)];
  if (encoding.kind == Encoding::Kind::kDense) return type;
  return fmt::format("{} {} bit, group {}, {}",
                     encoding.kind == Encoding::Kind::kAffine ? "affine" : "symmetric",
                     encoding.bits, encoding.group_size, type);
}

}  // namespace exo::kernels
