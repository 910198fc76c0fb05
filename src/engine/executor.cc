#include "engine/executor.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/overloaded.h"
#include "engine/cpu_backend.h"
#include "engine/logit_scan.h"

namespace exo::engine {

Result<std::unique_ptr<Model>> Model::load(const models::Checkpoint& checkpoint,
                                           kernels::ThreadPool& pool, const LoadOptions& options) {
  return Executor::load(checkpoint, pool, options);
}

Executor::Executor(std::unique_ptr<DecoderSpec> spec, std::unique_ptr<Backend> backend)
    : spec_(std::move(spec)), backend_(std::move(backend)) {}

Result<std::unique_ptr<Model>> Executor::load(const models::Checkpoint& checkpoint,
                                              kernels::ThreadPool& pool,
                                              const LoadOptions& options) {
  EXO_TRY(DecoderSpec described, decoder_spec(checkpoint.config()));
  if (described.head_is_optional && !checkpoint.has(described.head->name + ".weight"))
    described.head.reset();
  auto spec = std::make_unique<DecoderSpec>(std::move(described));
  auto backend = std::make_unique<CpuBackend>(*spec, pool, options);
  std::unique_ptr<Executor> executor(new Executor(std::move(spec), std::move(backend)));
  WeightLoader loader(checkpoint, pool, options.progress);
  EXO_TRY(executor->load_weights(loader));
  loader.finish();
  return executor;
}

Result<void> Executor::load_weights(WeightLoader& loader) {
  EXO_TRY(backend_->load_embedding(loader));
  for (std::size_t i = 0; i < spec_->layers.size(); ++i) {
    EXO_TRY(backend_->load_layer(loader, i));
  }
  EXO_TRY(backend_->load_head(loader));
  info_ = {.vocab_size = spec_->vocab_size,
           .layers = spec_->layers.size(),
           .context_length = spec_->context_length};
  backend_->describe(info_);
  return {};
}

Result<void> Executor::check(const Sequence& sequence, std::span<const std::uint32_t> ids) const {
  // Here, for all chunks together: none of them shall be stored if the last one cannot be.
  const std::size_t context = spec_->context_length;
  if (context > 0 && ids.size() > context - std::min(context, sequence.length()))
    return fail(ErrorCode::kContextLength,
                fmt::format("{} more tokens do not fit into the context of {} behind {}",
                            ids.size(), context, sequence.length()));
  for (const std::uint32_t id : ids)
    if (id >= spec_->vocab_size)
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("token id {} is beyond the vocabulary of {}", id, spec_->vocab_size));
  return {};
}

Result<void> Executor::run(Sequence& sequence, std::span<const std::uint32_t> ids, Needed needed) {
  EXO_TRY(backend_->begin(sequence, ids.size()));
  backend_->embed(ids);
  for (std::size_t i = 0; i < spec_->layers.size(); ++i) {
    const LayerSpec& layer = spec_->layers[i];
    // Only the last layer may leave rows out: every other one feeds the next layer's keys.
    const Needed rows = i + 1 == spec_->layers.size() ? needed : Needed::kAll;
    std::visit(Overloaded{[&](const AttentionSpec& spec) { backend_->attention(i, spec, rows); }},
               layer.mixer);
    std::visit(Overloaded{[&](const GatedSpec& spec) { backend_->gated(i, spec, rows); }},
               layer.feed_forward);
  }
  return {};
}

Result<void> Executor::prefill(Sequence& sequence, std::span<const std::uint32_t> ids) {
  EXO_TRY(check(sequence, ids));
  while (!ids.empty()) {
    const std::size_t count = std::min(ids.size(), kPrefillChunk);
    EXO_TRY(run(sequence, ids.first(count), Needed::kNone));
    backend_->end();
    ids = ids.subspan(count);
  }
  return {};
}

Result<std::span<float>> Executor::decode(Sequence& sequence, std::span<const std::uint32_t> ids) {
  if (ids.empty()) return fail(ErrorCode::kInvalidInput, "there is no token to decode");
  EXO_TRY(check(sequence, ids));
  while (ids.size() > kPrefillChunk) {
    EXO_TRY(prefill(sequence, ids.first(kPrefillChunk)));
    ids = ids.subspan(kPrefillChunk);
  }
  EXO_TRY(run(sequence, ids, Needed::kLast));
  const std::span<float> logits = backend_->logits(ids.size() - 1, 1);
  backend_->end();
  if (!all_finite(logits))
    return fail(ErrorCode::kInternal, "the model computed a logit that is NaN or infinite");
  return logits;
}

Result<std::vector<float>> Executor::logits(Sequence& sequence,
                                            std::span<const std::uint32_t> ids) {
  constexpr std::size_t kRows = 32;  // of logits at a time: a vocabulary is wide
  EXO_TRY(check(sequence, ids));
  std::vector<float> result;
  result.reserve(ids.size() * spec_->vocab_size);
  while (!ids.empty()) {
    const std::size_t count = std::min(ids.size(), kPrefillChunk);
    EXO_TRY(run(sequence, ids.first(count), Needed::kAll));
    for (std::size_t first = 0; first < count; first += kRows) {
      const auto rows = backend_->logits(first, std::min(kRows, count - first));
      result.insert(result.end(), rows.begin(), rows.end());
    }
    backend_->end();
    ids = ids.subspan(count);
  }
  return result;
}

}  // namespace exo::engine
