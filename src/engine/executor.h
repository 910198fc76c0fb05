// Runs any DecoderSpec over a Backend: checks, order of the blocks, cutting into chunks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/decoder_spec.h"
#include "engine/model.h"
#include "engine/ranks.h"
#include "engine/shard.h"

namespace exo::engine {

class Executor final : public Model {
 public:
  // The whole model, or with `ranks` what this one has of it by `layout`. Errors: as Model::load();
  // kInvalidInput, kUnsupported: the model cannot be split so.
  static Result<std::unique_ptr<Executor>> load(const models::Checkpoint& checkpoint,
                                                kernels::ThreadPool& pool,
                                                const LoadOptions& options,
                                                std::unique_ptr<Ranks> ranks = nullptr,
                                                const Layout& layout = {});

  const ModelInfo& info() const override { return info_; }
  std::unique_ptr<Sequence> make_sequence() override { return backend_->make_sequence(); }
  Ranks* ranks() { return ranks_.get(); }

  // With ranks, every one of them makes the same calls, and only rank 0 gets logits.
  Result<void> prefill(Sequence& sequence, std::span<const std::uint32_t> ids) override;
  Result<std::span<float>> decode(Sequence& sequence, std::span<const std::uint32_t> ids) override;
  Result<std::vector<float>> logits(Sequence& sequence,
                                    std::span<const std::uint32_t> ids) override;

 private:
  Executor(std::unique_ptr<DecoderSpec> spec, std::unique_ptr<Ranks> ranks,
           std::unique_ptr<Backend> backend);

  Result<void> load_weights(WeightLoader& loader);
  Result<void> check(const Sequence& sequence, std::span<const std::uint32_t> ids) const;
  // The layers over one chunk, up to the hidden state; the step stays open on success. Errors:
  // kInternal: NaN or infinity; `subject` is the tensor whose product it is.
  Result<void> run(Sequence& sequence, std::span<const std::uint32_t> ids, Needed needed);
  // The same within a step; `checked`: the hidden state is looked at behind every block.
  Result<void> blocks(std::span<const std::uint32_t> ids, Needed needed, bool checked);
  // The logits of rows [first, first + count). Errors: as run().
  Result<std::span<float>> head(std::size_t first, std::size_t count);

  std::unique_ptr<DecoderSpec> spec_;  // the backend borrows it: it must not move
  std::unique_ptr<Ranks> ranks_;       // null: this is the whole model
  std::unique_ptr<Backend> backend_;
  ModelInfo info_;
};

}  // namespace exo::engine
