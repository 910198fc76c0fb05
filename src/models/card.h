// A model card: what is said of a model, read from TOML or derived from its files. Source:
// cluster.md 13.1.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/id.h"
#include "core/result.h"
#include "models/checkpoint.h"

namespace exo::models {

struct SamplingDefaults {
  std::optional<double> temperature = {}, top_p = {}, min_p = {};
  std::optional<double> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
  std::optional<std::int64_t> top_k = {};  // 0: off

  friend bool operator==(const SamplingDefaults&, const SamplingDefaults&) = default;
};

struct Card {
  ModelId id = {};
  std::uint64_t storage_bytes = 0;
  std::uint32_t n_layers = 0;
  std::uint32_t hidden_size = 0;
  std::optional<std::uint32_t> num_key_value_heads = {};
  bool supports_tensor = false;
  std::vector<std::string> tasks = {"TextGeneration"};
  std::vector<std::string> backends = {"Cpu"};
  std::string family = {}, quantization = {}, base_model = {};
  std::vector<std::string> capabilities = {"text"};
  std::uint64_t context_length = 0;  // 0: unknown
  std::string reasoning_dialect = "none";
  bool uses_cfg = false;
  bool trust_remote_code = false;  // true is refused: nothing from a repository is executed
  SamplingDefaults sampling = {};
  std::map<std::string, SamplingDefaults> sampling_by_mode = {};  // "thinking", "non_thinking"

  friend bool operator==(const Card&, const Card&) = default;
};

// Errors: kInvalidInput: malformed TOML, an unknown key, a missing or bad value; `subject` is the
// key.
Result<Card> parse_card(std::string_view toml);
std::string to_toml(const Card& card);

// The card of a model without one, from its configuration and tensors.
Result<Card> derive_card(const ModelId& id, const Checkpoint& checkpoint);

}  // namespace exo::models
