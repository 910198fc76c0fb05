#include "app/synthetic.h"

#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "engine/decoder_spec.h"
#include "engine/engine.h"
#include "engine/footprint.h"
#include "models/checkpoint_writer.h"
#include "models/synthetic.h"

namespace exo::app {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

// What GGUF has in place of Llama 3's scaling: how many times slower each pair of dimensions
// rotates than without.
std::vector<float> rope_divisors(const engine::DecoderSpec& spec) {
  const engine::RopeSpec& scaled = spec.ropes.front();
  if (!std::holds_alternative<engine::Llama3Rope>(scaled.scaling)) return {};
  engine::RopeSpec plain = scaled;
  plain.scaling = engine::DefaultRope{};
  std::vector<float> divisors = engine::frequencies(plain);
  const std::vector<float> slower = engine::frequencies(scaled);
  for (std::size_t i = 0; i < divisors.size(); ++i) divisors[i] /= slower[i];
  return divisors;
}

}  // namespace

Result<std::unique_ptr<models::Checkpoint>> make_synthetic(const SyntheticOptions& options) {
  EXO_TRY(const std::string text, read_file(options.config, kMaxConfigBytes));
  auto config = parse_json(text);
  if (!config || !config->is_object()) {
    return fail(ErrorCode::kInvalidInput, "--synthetic takes a config.json, which this is not",
                options.config);
  }
  EXO_TRY(const models::WeightFormat format, models::weight_format_from(options.quantization));
  if (options.layers > 0) {
    const bool wrapped = config->contains("text_config") && (*config)["text_config"].is_object();
    (wrapped ? (*config)["text_config"] : *config)["num_hidden_layers"] = options.layers;
  }
  return models::make_synthetic(std::move(*config), format);
}

Result<void> write_synthetic(const models::Checkpoint& checkpoint,
                             const std::filesystem::path& directory) {
  EXO_TRY(const engine::Footprint footprint, engine::footprint(checkpoint, {}));
  EXO_TRY(const engine::DecoderSpec spec, engine::decoder_spec(checkpoint.config()));
  models::CheckpointContent content{.config = checkpoint.config(),
                                    .rope_divisors = rope_divisors(spec)};
  for (const engine::StoredMatrix& matrix : footprint.matrices) {
    EXO_TRY(models::MatrixView view, checkpoint.matrix(matrix.name, matrix.rows, matrix.cols));
    content.matrices.push_back(std::move(view));
  }
  for (const engine::StoredVector& vector : footprint.vectors) {
    EXO_TRY(std::vector<float> values, checkpoint.vector(vector.name, vector.size));
    content.vectors.push_back({.name = vector.name, .values = std::move(values)});
  }
  return models::write_checkpoint(directory, content);
}

}  // namespace exo::app
