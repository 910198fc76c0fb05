// Logits → token: processors, log-probabilities, filters, the draw. Source: models.md 5.5–5.10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

  // Chooses a token from f32[vocab_size] (finite; changed in place) and appends it to the
  // histories.
  Sampled sample(std::span<float> logits);

 private:
  SamplerOptions options_;
  std::vector<std::uint32_t> history_;    // prompt tail and generated ids
  std::vector<std::uint32_t> generated_;  // generated ids only
  std::uint64_t random_state_;
  std::vector<std::pair<float, std::uint32_t>> scratch_;
};

}  // namespace exo::engine
