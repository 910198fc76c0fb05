// exo show: what a model is, told from its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "engine/footprint.h"
#include "models/checkpoint.h"

namespace exo::app {

// The tokenizer, and what it costs beside the weights.
struct ShownTokenizer {
  std::size_t tokens = 0;
  std::string kind = {};  // "byte-level", "SentencePiece", "other"
  double load_s = 0;
  std::uint64_t memory_bytes = 0;
  models::TokenizerFiles files = {};
};

// The weights; what cannot be run has `problem` instead of a footprint.
struct ShownWeights {
  Json config = {};
  std::uint64_t bytes = 0;
  std::vector<models::TensorInfo> tensors = {};
  std::optional<engine::Footprint> footprint = {};
  std::string problem = {};
};

struct ShownModel {
  std::filesystem::path path = {};
  std::optional<ShownWeights> weights = {};
  std::string weights_problem = {};
  std::optional<ShownTokenizer> tokenizer = {};
  std::string tokenizer_problem = {};
};

// Errors: as models::open_checkpoint(), unless there is a tokenizer to show.
Result<ShownModel> examine_model(const std::filesystem::path& path,
                                 const engine::LoadOptions& options);

Json to_json(const ShownModel& model);
// `all_tensors`: one by one instead of by encoding.
std::string model_text(const ShownModel& model, bool all_tensors);

}  // namespace exo::app
