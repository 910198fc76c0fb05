// The reference rotation, in f64.
#include "kernels/rope.h"

namespace exo::kernels {

void scalar::rope(float* x, std::size_t heads, std::size_t head_dim, std::size_t rotated,
                  const float* cosines, const float* sines, RopePairs pairs) {
  const std::size_t half = rotated / 2;
  const bool interleaved = pairs == RopePairs::kInterleaved;
  for (std::size_t head = 0; head < heads; ++head, x += head_dim) {
    for (std::size_t i = 0; i < half; ++i) {
      float& first = x[interleaved ? 2 * i : i];
      float& second = x[interleaved ? 2 * i + 1 : i + half];
      const double a = first, b = second, c = cosines[i], s = sines[i];
      first = static_cast<float>(a * c - b * s);
      second = static_cast<float>(a * s + b * c);
    }
  }
}

}  // namespace exo::kernels
