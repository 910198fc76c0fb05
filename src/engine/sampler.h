// Logits → token: processors, log-probabilities, filters, the draw. Source: models.md 5.5–5.10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace exo::engine {

// Resolved values; the defaults are the engine's.
struct SamplerOptions {
  double temperature = 0.7;
  double top_p = 1.0;
  double min_p = 0.05;
  std::size_t top_k = 0;  // 0: off
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::size_t repetition_context_size = 20;
  std::vector<std::pair<std::uint32_t, double>> logit_bias = {};
  std::vector<std::uint32_t> banned = {};  // set to −1e9: the benchmark's EOS ban
  std::uint64_t seed = 0;
  std::size_t top_logprobs = 0;  // alternatives to report
  bool logprobs = false;
};

struct Sampled {
  std::uint32_t id = 0;
  float logprob = 0;  // only with `logprobs`
  std::vector<std::pair<std::uint32_t, float>> top =
      {};  // sorted descending, NaN skipped; only with `logprobs`
};

// The sampler of one request: its random stream and its histories.
class Sampler {
 public:
  // `prompt`: the ids before the first generated one (their tail is the repetition penalty's
  // window).
  Sampler(SamplerOptions options, std::span<const std::uint32_t> prompt);

  // Chooses a token from f32[vocab_size] (at least one; changed in place) and appends it to the
  // histories. A NaN is never chosen as long as another logit is a number.
  Sampled sample(std::span<float> logits);

 private:
  struct Candidate {
    std::uint32_t id = 0;
    float logit = 0;
  };

  void apply_processors(std::span<float> logits) const;
  void report(std::span<const float> logits, Sampled& sampled) const;
  std::uint32_t draw(std::span<const float> logits);
  void filter(std::span<const float> logits, float largest);
  void collect(std::span<const float> logits, double limit);
  bool keep_front(std::size_t top_k, double total);
  std::uint32_t draw_candidate(float largest);
  double uniform();

  SamplerOptions options_;
  std::vector<std::uint32_t> history_;                        // prompt tail and generated ids
  std::unordered_map<std::uint32_t, std::size_t> generated_;  // generated id → occurrences
  std::uint64_t draws_ = 0;                                   // the random stream's counter
  std::vector<Candidate> candidates_;  // what the filters left, by id; reused
  std::vector<double> weights_;        // their running sums; reused
};

}  // namespace exo::engine
