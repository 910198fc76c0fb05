#include "engine/perplexity.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/logit_scan.h"

namespace exo::engine {
namespace {

// Positions whose logits are held at a time: a quarter of a million tokens take a megabyte each.
constexpr std::size_t kChunk = 128;

// −Σ ln p of all tokens of `window` but the first.
Result<double> score(Model& model, std::span<const std::uint32_t> window) {
  const std::size_t vocabulary = model.info().vocab_size;
  const auto sequence = model.make_sequence();
  double sum = 0;
  for (std::size_t begin = 0; begin + 1 < window.size(); begin += kChunk) {
    const std::size_t count = std::min(kChunk, window.size() - 1 - begin);
    EXO_TRY(const std::vector<float> logits, model.logits(*sequence, window.subspan(begin, count)));
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = std::span(logits).subspan(i * vocabulary, vocabulary);
      const std::uint32_t next = window[begin + i + 1];
      if (next >= vocabulary)
        return fail(ErrorCode::kInvalidInput, "a token of the text is beyond the vocabulary");
      sum += log_sum_exp(row, largest_logit(row)) - row[next];
    }
  }
  return sum;
}

}  // namespace

Result<Perplexity> measure_perplexity(Model& model, std::span<const std::uint32_t> ids,
                                      const PerplexityOptions& options) {
  if (options.window < 2) return fail(ErrorCode::kInvalidInput, "a window needs at least 2 tokens");
  const std::size_t own = options.window - (options.first ? 1 : 0);
  Perplexity result;
  double sum = 0;
  for (std::size_t begin = 0; begin < ids.size(); begin += own) {
    const auto part = ids.subspan(begin, std::min(own, ids.size() - begin));
    std::vector<std::uint32_t> window;
    if (options.first) window.push_back(*options.first);
    window.insert(window.end(), part.begin(), part.end());
    if (window.size() < 2) continue;
    EXO_TRY(const double scored, score(model, window));
    sum += scored;
    result.scored += window.size() - 1;
    if (options.progress) options.progress(begin + part.size(), ids.size());
  }
  if (result.scored == 0)
    return fail(ErrorCode::kInvalidInput, "the text is too short: at least 2 tokens are needed");
  result.negative_log_likelihood = sum / static_cast<double>(result.scored);
  return result;
}

}  // namespace exo::engine
