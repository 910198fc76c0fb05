#include "engine/logit_scan.h"

#include <array>
#include <bit>
#include <cmath>

namespace exo::engine {

float largest_logit(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = logits[i + lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  float largest = -std::numeric_limits<float>::infinity();
  for (const float value : lanes) largest = value > largest ? value : largest;
  for (; i < logits.size(); ++i) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

std::uint32_t argmax(std::span<const float> logits) {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t first = kNone;
  for_each_at_least(logits, largest_logit(logits), [&](std::uint32_t id, float) {
    if (first == kNone) first = id;
  });
  return first == kNone ? 0 : first;
}

double log_sum_exp(std::span<const float> logits, float largest) {
  double sum = 0;
  for (const float logit : logits)
    if (logit == logit) sum += std::exp(logit - largest);  // each term in f32, the sum in f64
  return largest + std::log(sum);
}

bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f80'0000U;
  unsigned bad = 0;
  for (const float value : values)
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

}  // namespace exo::engine
