// Inputs that the kernels' tests share.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

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

}  // namespace exo::kernels
