#include "engine/executor.h"

#include <algorithm>
#include <expected>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "core/overloaded.h"
#include "engine/cpu_backend.h"
#include "engine/logit_scan.h"

namespace exo::engine {
namespace {

// `tensor` is the one whose product it is.
std::unexpected<Error> not_finite(const std::string& tensor) {
  return fail(ErrorCode::kInternal, "the model computed a number that is NaN or infinite", tensor);
}

// The module whose product a block adds.
const std::string& output_of(const Mixer& mixer) {
  return std::visit(
      Overloaded{[](const AttentionSpec& spec) -> const std::string& { return spec.o.name; }},
      mixer);
}
const std::string& output_of(const FeedForward& feed_forward) {
  return std::visit(
      Overloaded{[](const GatedSpec& spec) -> const std::string& { return spec.down.name; }},
      feed_forward);
}

Result<std::size_t> unit_of(const models::Checkpoint& checkpoint, const LinearSpec& module) {
  EXO_TRY(const models::MatrixView view,
          checkpoint.matrix(module.name, module.total_rows(), module.total_cols()));
  return column_unit(view.format);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const models::Checkpoint& checkpoint,
                                           kernels::ThreadPool& pool, const LoadOptions& options) {
  return Executor::load(checkpoint, pool, options);
}

Executor::Executor(std::unique_ptr<DecoderSpec> spec, std::unique_ptr<Ranks> ranks,
                   std::unique_ptr<Backend> backend)
    : spec_(std::move(spec)), ranks_(std::move(ranks)), backend_(std::move(backend)) {}

Result<std::unique_ptr<Executor>> Executor::load(const models::Checkpoint& checkpoint,
                                                 kernels::ThreadPool& pool,
                                                 const LoadOptions& options,
                                                 std::unique_ptr<Ranks> ranks,
                                                 const Layout& layout) {
  EXO_TRY(DecoderSpec described, decoder_spec(checkpoint.config()));
  if (described.head_is_optional && !checkpoint.has(described.head->name + ".weight"))
    described.head.reset();
  const std::size_t layers = described.layers.size();
  if (ranks) {
    EXO_TRY(described, shard_of(described, layout, ranks->rank(), [&](const LinearSpec& module) {
              return unit_of(checkpoint, module);
            }));
  }
  auto spec = std::make_unique<DecoderSpec>(std::move(described));
  auto backend = std::make_unique<CpuBackend>(*spec, pool, options, ranks.get());
  std::unique_ptr<Executor> executor(
      new Executor(std::move(spec), std::move(ranks), std::move(backend)));
  WeightLoader loader(checkpoint, pool, options.progress);
  EXO_TRY(executor->load_weights(loader));
  executor->info_.layers = layers;
  loader.finish();
  return executor;
}

Result<void> Executor::load_weights(WeightLoader& loader) {
  EXO_TRY(backend_->load_embedding(loader));
  for (std::size_t i = 0; i < spec_->layers.size(); ++i) {
    EXO_TRY(backend_->load_layer(loader, i));
  }
  EXO_TRY(backend_->load_head(loader));
  info_ = {.vocab_size = spec_->vocab_size, .context_length = spec_->context_length};
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
  if (auto begun = backend_->begin(sequence, ids.size()); !begun) {
    // The other ranks are in the step already, and would wait for this one.
    if (ranks_) ranks_->abort();
    return begun;
  }
  EXO_TRY(blocks(ids, needed, false));
  // NaN and infinity stay in the hidden state, whatever later blocks add to it: one look is enough.
  // Of several ranks, rank 0 finds them in the logits.
  if (ranks_ || backend_->finite()) return {};
  EXO_TRY(blocks(ids, needed, true));
  return not_finite("hidden state");
}

Result<void> Executor::blocks(std::span<const std::uint32_t> ids, Needed needed, bool checked) {
  EXO_TRY(spec_->ends.embeds ? backend_->embed(ids) : backend_->receive_hidden());
  if (checked && !backend_->finite()) return not_finite(spec_->embedding);
  for (std::size_t i = 0; i < spec_->layers.size(); ++i) {
    const LayerSpec& layer = spec_->layers[i];
    // Only the model's last layer may leave rows out: every other one feeds the next layer's keys.
    const bool last = spec_->ends.has_head && i + 1 == spec_->layers.size();
    const Needed rows = last ? needed : Needed::kAll;
    EXO_TRY(std::visit(
        Overloaded{[&](const AttentionSpec& spec) { return backend_->attention(i, spec, rows); }},
        layer.mixer));
    if (checked && !backend_->finite()) return not_finite(output_of(layer.mixer));
    EXO_TRY(std::visit(
        Overloaded{[&](const GatedSpec& spec) { return backend_->gated(i, spec, rows); }},
        layer.feed_forward));
    if (checked && !backend_->finite()) return not_finite(output_of(layer.feed_forward));
  }
  return spec_->ends.has_head ? Result<void>() : backend_->send_hidden();
}

Result<std::span<float>> Executor::head(std::size_t first, std::size_t count) {
  EXO_TRY(const std::span<float> logits, backend_->logits(first, count));
  if (!all_finite(logits)) return not_finite(spec_->head ? spec_->head->name : spec_->embedding);
  return logits;
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
  EXO_TRY(const std::span<float> logits, head(ids.size() - 1, 1));
  backend_->end();
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
      EXO_TRY(const std::span<float> rows, head(first, std::min(kRows, count - first)));
      result.insert(result.end(), rows.begin(), rows.end());
    }
    backend_->end();
    ids = ids.subspan(count);
  }
  return result;
}

}  // namespace exo::engine
