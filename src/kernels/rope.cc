// Frequencies and angles of the rotary embedding, in f64 until the last step.
#include "kernels/rope.h"

#include <cmath>
#include <numbers>

namespace exo::kernels {

constinit const Variants<RopeFn> rope{.scalar = scalar::rope,
                                      EXO_X86(.avx2 = avx2::rope, .avx512 = avx512::rope)};

std::vector<float> default_frequencies(std::size_t rotated, float base) {
  std::vector<float> frequencies(rotated / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotated);
    frequencies[i] = static_cast<float>(std::pow(double{base}, exponent));
  }
  return frequencies;
}

std::vector<float> llama3_frequencies(std::size_t rotated, float base,
                                      const Llama3Scaling& scaling) {
  const double factor = scaling.factor, low = scaling.low_freq_factor,
               high = scaling.high_freq_factor, original = scaling.original_context;
  std::vector<float> frequencies(rotated / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double period =
        std::pow(double{base}, 2.0 * static_cast<double>(i) / static_cast<double>(rotated));
    const double wavelength = 2 * std::numbers::pi * period;
    double share = (original / wavelength - low) / (high - low);  // of the unscaled frequency
    if (wavelength > original / low) share = 0;
    if (wavelength < original / high) share = 1;
    frequencies[i] = static_cast<float>(((1 - share) / factor + share) / period);
  }
  return frequencies;
}

void rope_angles(const std::vector<float>& frequencies, std::size_t position, float* cosines,
                 float* sines) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = static_cast<double>(position) * double{frequencies[i]};
    cosines[i] = static_cast<float>(std::cos(angle));
    sines[i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace exo::kernels
