// Loads a model for serving.
#include "serving/served_model.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "core/log.h"
#include "models/checkpoint.h"

namespace exo::serving {
namespace {

class EngineStream final : public TextStream {
 public:
  explicit EngineStream(const engine::Tokenizer& tokenizer) : detokenizer_(tokenizer, false) {}
  std::string push(std::uint32_t id) override { return detokenizer_.push(id); }
  std::string finish() override { return detokenizer_.finish(); }

 private:
  engine::Detokenizer detokenizer_;
};

Result<engine::Tokenizer> open_tokenizer(const models::Checkpoint& checkpoint) {
  const auto begin = std::chrono::steady_clock::now();
  EXO_TRY(const std::string document, checkpoint.tokenizer_json());
  EXO_TRY(engine::Tokenizer tokenizer, engine::Tokenizer::open(document));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  log::info("a tokenizer of {} tokens took {:.2f} s beside the weights", tokenizer.size(),
            took.count());
  return tokenizer;
}

}  // namespace

ServedModel::ServedModel(const RunnerOptions& options)
    : pool_(kernels::ThreadPoolOptions{.threads = options.threads, .cpus = options.cpus}) {}

Result<std::unique_ptr<ServedModel>> ServedModel::load(const std::string& path,
                                                       const RunnerOptions& options,
                                                       Progress progress) {
  EXO_TRY(const std::unique_ptr<models::Checkpoint> checkpoint, models::open_checkpoint(path));
  EXO_TRY(const models::TokenizerFiles files, checkpoint->tokenizer());
  // A vocabulary of 262,144 tokens takes a second or more: as long as weights of half a gigabyte.
  std::future<Result<engine::Tokenizer>> tokenizer =
      std::async(std::launch::async, [&checkpoint] { return open_tokenizer(*checkpoint); });
  auto served = std::unique_ptr<ServedModel>(new ServedModel(options));
  if (const models::ChatTemplate* chosen = models::default_template(files)) {
    EXO_TRY(served->template_, engine::ChatTemplate::open(chosen->text));
  }
  engine::LoadOptions load;
  load.precision = options.precision;
  load.kv_type = options.kv_type;
  load.progress = std::move(progress);
  EXO_TRY(served->model_, engine::Model::load(*checkpoint, served->pool_, load));
  EXO_TRY(served->tokenizer_, tokenizer.get());
  served->fill_context(*checkpoint, files);
  return served;
}

void ServedModel::fill_context(const models::Checkpoint& checkpoint,
                               const models::TokenizerFiles& files) {
  context_.model = model_.get();
  context_.eos_ids = checkpoint.eos_token_ids();
  context_.make_stream = [this] { return std::make_unique<EngineStream>(*tokenizer_); };
  context_.token_bytes = [this](std::uint32_t id) { return tokenizer_->bytes_of(id); };
  PromptContext& prompt = context_.prompt;
  prompt.encode = [this](std::string_view text) { return tokenizer_->encode(text); };
  if (template_)
    prompt.render = [this](const Json& variables) { return template_->render(variables); };
  prompt.special_tokens = files.special_tokens;
  prompt.add_bos = files.add_bos;
  prompt.bos_token_id = files.bos_token_id;
  prompt.has_thinking = tokenizer_->id_of("<think>") && tokenizer_->id_of("</think>");
  prompt.context_length = model_->info().context_length;
}

Result<void> ServedModel::warm_up() {
  constexpr std::size_t kSteps = 4;
  const std::unique_ptr<engine::Sequence> sequence = model_->make_sequence();
  std::uint32_t id = context_.prompt.bos_token_id.value_or(0);
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXO_TRY(const std::span<float> logits, model_->decode(*sequence, std::span(&id, 1)));
    id = static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  return {};
}

}  // namespace exo::serving
