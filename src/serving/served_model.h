// A model with all that generations need: weights, tokenizer, template.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/result.h"
#include "engine/engine.h"
#include "kernels/thread_pool.h"
#include "serving/generation.h"
#include "serving/runner.h"

namespace exo::serving {

class ServedModel {
 public:
  using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

  // Errors: as models::open_checkpoint(), engine::Model::load(), Tokenizer::open() and
  // ChatTemplate::open().
  static Result<std::unique_ptr<ServedModel>> load(const std::string& path,
                                                   const RunnerOptions& options, Progress progress);

  // Generates a few tokens, so that the first request finds everything in place. Errors: as
  // Model::decode().
  Result<void> warm_up();

  const GenerationContext& context() const { return context_; }
  const engine::ModelInfo& info() const { return model_->info(); }

 private:
  explicit ServedModel(const RunnerOptions& options);

  void fill_context(const models::Checkpoint& checkpoint, const models::TokenizerFiles& files);

  kernels::ThreadPool pool_;                    // outlives the model
  std::optional<engine::Tokenizer> tokenizer_;  // there once load() has returned
  std::optional<engine::ChatTemplate> template_;
  std::unique_ptr<engine::Model> model_;
  GenerationContext context_;
};

}  // namespace exo::serving
