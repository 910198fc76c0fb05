#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/logit_scan.h"

namespace exo::engine {
namespace {

constexpr float kBanned = -1e9F;
constexpr double kNear = 10;  // logits below the best: e^−10 of its probability

// Of two equal logits the lower id comes first, everywhere.
template <typename Candidate>
bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (SplitMix64): any
// counter gives its number without the ones before it.
std::uint64_t split_mix(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9e37'79b9'7f4a'7c15U;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebU;
  return z ^ (z >> 31);
}

// A logit of −infinity stays one whatever is subtracted; a number never becomes a NaN.
void subtract(float& logit, double amount) { logit = static_cast<float>(logit - amount); }

}  // namespace

Sampler::Sampler(SamplerOptions options, std::span<const std::uint32_t> prompt)
    : options_(std::move(options)) {
  const std::size_t window = std::min(options_.repetition_context_size, prompt.size());
  history_.assign(prompt.end() - static_cast<std::ptrdiff_t>(window), prompt.end());
}

Sampled Sampler::sample(std::span<float> logits) {
  apply_processors(logits);
  Sampled sampled;
  sampled.id = options_.temperature > 0 ? draw(logits) : argmax(logits);
  if (options_.logprobs) report(logits, sampled);
  ++generated_[sampled.id];
  if (options_.repetition_context_size > 0) {
    if (history_.size() >= options_.repetition_context_size) history_.erase(history_.begin());
    history_.push_back(sampled.id);
  }
  return sampled;
}

// models.md 5.7, in the order of 5.6.
void Sampler::apply_processors(std::span<float> logits) const {
  for (const std::uint32_t id : options_.banned)
    if (id < logits.size()) logits[id] = kBanned;
  for (const auto& [id, bias] : options_.logit_bias)
    if (id < logits.size()) subtract(logits[id], -bias);
  const double repetition = options_.repetition_penalty;
  if (repetition > 0 && repetition != 1)
    for (auto it = history_.begin(); it != history_.end(); ++it) {
      if (*it >= logits.size() || std::find(history_.begin(), it, *it) != it) continue;
      const double logit = logits[*it];
      logits[*it] = static_cast<float>(logit < 0 ? logit * repetition : logit / repetition);
    }
  const double presence = options_.presence_penalty, frequency = options_.frequency_penalty;
  if (presence != 0 || frequency != 0)
    for (const auto& [id, count] : generated_)
      if (id < logits.size())
        subtract(logits[id], presence + frequency * static_cast<double>(count));
}

// models.md 5.10: after the processors, before filters and temperature.
void Sampler::report(std::span<const float> logits, Sampled& sampled) const {
  const double total = log_sum_exp(logits, largest_logit(logits));
  const auto logprob = [&](float logit) { return static_cast<float>(logit - total); };
  sampled.logprob = logprob(logits[sampled.id]);
  if (options_.top_logprobs == 0) return;
  std::vector<Candidate> best;  // the top so far, best first
  float limit = -std::numeric_limits<float>::infinity();
  for_each_at_least(logits, limit, [&](std::uint32_t id, float logit) {
    const Candidate candidate{.id = id, .logit = logit};
    if (best.size() == options_.top_logprobs) {
      if (!before(candidate, best.back())) return;
      best.pop_back();
    }
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, before<Candidate>),
                candidate);
  });
  for (const Candidate& candidate : best)
    sampled.top.emplace_back(candidate.id, logprob(candidate.logit));
}

// models.md 5.6, step 5 and 6. A filter keeps the front of the tokens ordered by logit, so that the
// three together keep the shortest of their fronts, and tokens far below the best are never sorted.
std::uint32_t Sampler::draw(std::span<const float> logits) {
  const float largest = largest_logit(logits);
  if (std::isinf(largest)) return argmax(logits);
  filter(logits, largest);
  return draw_candidate(largest);
}

// Leaves in candidates_, by id, what top_p, min_p and top_k keep.
void Sampler::filter(std::span<const float> logits, float largest) {
  const bool by_mass = options_.top_p > 0 && options_.top_p < 1;
  const std::size_t top_k = options_.top_k > 0 ? options_.top_k : logits.size();
  const double min_limit = options_.min_p > 0 ? largest + std::log(std::min(options_.min_p, 1.0))
                                              : -std::numeric_limits<double>::infinity();
  if (!by_mass && top_k >= logits.size()) return collect(logits, min_limit);
  const double total = by_mass ? log_sum_exp(logits, largest) : 0;
  // Nearly always what is kept lies near the top; if not, everything is looked at.
  const double near = std::max(min_limit, double{largest} - kNear);
  collect(logits, near);
  if (!keep_front(top_k, total) && near > min_limit) {
    collect(logits, min_limit);
    keep_front(top_k, total);
  }
  std::ranges::sort(candidates_, {}, &Candidate::id);
}

// The tokens with logits from `limit` on, by id.
void Sampler::collect(std::span<const float> logits, double limit) {
  // The smallest float that is not below the limit, so that the scan compares as f64 would.
  float rounded = static_cast<float>(limit);
  if (rounded < limit) rounded = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  candidates_.clear();
  for_each_at_least(logits, rounded, [&](std::uint32_t id, float logit) {
    candidates_.push_back({.id = id, .logit = logit});
  });
}

// Cuts the candidates to the best `top_k`, and to the front that holds a mass of top_p where that
// filters; `total`: ln Σ e^l of all tokens. Returns whether the filters, and not the end of the
// candidates, made the cut.
bool Sampler::keep_front(std::size_t top_k, double total) {
  const bool by_mass = options_.top_p > 0 && options_.top_p < 1;
  const auto at = [&](std::size_t i) {
    return candidates_.begin() + static_cast<std::ptrdiff_t>(i);
  };
  std::size_t sorted = 0, kept = 0;
  double mass = 0;  // of the tokens before `kept`
  const auto enough = [&] {
    return kept >= top_k || (by_mass && kept > 0 && mass >= options_.top_p);
  };
  for (; kept < candidates_.size() && !enough(); ++kept) {
    if (kept == sorted) {  // sorts in portions that grow
      sorted = std::min(candidates_.size(), by_mass ? 2 * sorted + 64 : top_k);
      std::partial_sort(at(kept), at(sorted), candidates_.end(), before<Candidate>);
    }
    if (by_mass) mass += std::exp(candidates_[kept].logit - total);
  }
  candidates_.resize(kept);
  return enough();
}

// models.md 5.8: w_i = exp(x_i − max x), the last i whose exclusive running sum is ≤ u·Σw.
std::uint32_t Sampler::draw_candidate(float largest) {
  weights_.clear();
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    const double power = (double{candidate.logit} - largest) / options_.temperature;
    sum += std::exp(static_cast<float>(power));  // each weight in f32, the sum in f64
    weights_.push_back(sum);
  }
  const double target = uniform() * sum;
  // The first inclusive sum above the target; tokens of no weight add nothing and are passed over.
  const auto found = std::ranges::upper_bound(weights_, target);
  const auto index = std::min<std::ptrdiff_t>(found - weights_.begin(),
                                              static_cast<std::ptrdiff_t>(weights_.size()) - 1);
  return candidates_[static_cast<std::size_t>(index)].id;
}

double Sampler::uniform() {
  return static_cast<double>(split_mix(options_.seed, draws_++) >> 11) * 0x1p-53;
}

}  // namespace exo::engine
