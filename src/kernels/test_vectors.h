// Inputs that the kernels' tests share.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/check.h"
#include "kernels/isa.h"

namespace exo::kernels {

inline constexpr float kUlp = 0x1p-24F;  // u of the bounds: half the spacing of f32 at 1

// Lengths at and around the widths of registers and loops.
inline constexpr std::size_t kOddLengths[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 64, 65, 1000};

// Uniform in [low, high).
inline std::vector<float> random_vector(std::size_t n, std::uint32_t seed, float low = -1,
                                        float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

// Puts an instruction set in use for a scope.
class UseIsa {
 public:
  explicit UseIsa(Isa isa) : before_(active_isa()) { EXO_CHECK(set_isa(isa)); }
  ~UseIsa() { EXO_CHECK(set_isa(before_)); }
  UseIsa(const UseIsa&) = delete;
  UseIsa& operator=(const UseIsa&) = delete;

 private:
  Isa before_;
};

}  // namespace exo::kernels
