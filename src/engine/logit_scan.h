// Passes over a vocabulary's logits, written so that the compiler makes SIMD of them. NaN counts as
// absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace exo::engine {

// The largest logit that is a number; −infinity if there is none.
float largest_logit(std::span<const float> logits);

// The first index of the largest logit; 0 if there is none.
std::uint32_t argmax(std::span<const float> logits);

// ln Σ e^l, summed in f64; −infinity if there is no logit.
double log_sum_exp(std::span<const float> logits, float largest);

// Whether every value is a number below infinity.
bool all_finite(std::span<const float> values);

// Calls visit(id, logit) for every logit ≥ limit, by id.
template <typename Visit>
void for_each_at_least(std::span<const float> logits, float limit, Visit visit) {
  constexpr std::size_t kBlock = 16;
  std::size_t i = 0;
  for (; i + kBlock <= logits.size(); i += kBlock) {
    const float* block = logits.data() + i;
    unsigned any = 0;
    for (std::size_t lane = 0; lane < kBlock; ++lane) any |= block[lane] >= limit ? 1U : 0U;
    if (any == 0) continue;
    for (std::size_t lane = 0; lane < kBlock; ++lane)
      if (block[lane] >= limit) visit(static_cast<std::uint32_t>(i + lane), block[lane]);
  }
  for (; i < logits.size(); ++i)
    if (logits[i] >= limit) visit(static_cast<std::uint32_t>(i), logits[i]);
}

}  // namespace exo::engine
