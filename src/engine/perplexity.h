// How well a model expects a text: e to the mean of −ln p over the tokens scored.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "core/result.h"
#include "engine/model.h"

namespace exo::engine {

struct PerplexityOptions {
  // The text is cut into windows of this many tokens, each read by itself: what a token's place in
  // the text may add to its context is the same for every implementation that is compared.
  std::size_t window = 512;
  std::optional<std::uint32_t> first = {};  // stands in front of each window, within its length
  std::function<void(std::size_t done, std::size_t total)> progress = {};  // tokens
};

struct Perplexity {
  std::size_t scored = 0;              // every token but the first of each window
  double negative_log_likelihood = 0;  // the mean, in nats

  double value() const { return std::exp(negative_log_likelihood); }
};

// Errors: kInvalidInput: a window of less than 2 tokens, or a text that leaves nothing to score;
// as Model::logits().
Result<Perplexity> measure_perplexity(Model& model, std::span<const std::uint32_t> ids,
                                      const PerplexityOptions& options);

}  // namespace exo::engine
