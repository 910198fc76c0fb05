#include "models/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "models/gguf_architecture.h"

namespace exo::models {
namespace {

constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

// The keys of one architecture: "<arch>.<name>".
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufMetadata& metadata, std::string architecture)
      : metadata_(metadata), architecture_(std::move(architecture)) {}

  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return metadata_.has(key(name)); }

  // A positive integer, or `fallback`; without one the key is required.
  Result<std::int64_t> positive(std::string_view name,
                                std::optional<std::int64_t> fallback = {}) const {
    if (!has(name)) {
      if (fallback) return *fallback;
      return fail(ErrorCode::kInvalidInput, "the GGUF file lacks a key that its architecture needs",
                  key(name));
    }
    const auto value = metadata_.integer(key(name));
    if (!value || *value < 1 || *value > kMaxSize) {
      return fail(ErrorCode::kInvalidInput, "must be one positive integer for all layers",
                  key(name));
    }
    return *value;
  }

  Result<double> positive_number(std::string_view name, std::optional<double> fallback = {}) const {
    if (!has(name)) {
      if (fallback) return *fallback;
      return fail(ErrorCode::kInvalidInput, "the GGUF file lacks a key that its architecture needs",
                  key(name));
    }
    const auto value = metadata_.number(key(name));
    if (!value || !std::isfinite(*value) || *value <= 0) {
      return fail(ErrorCode::kInvalidInput, "must be a positive number", key(name));
    }
    return *value;
  }

  const GgufMetadata& metadata() const { return metadata_; }

 private:
  const GgufMetadata& metadata_;
  std::string architecture_;
};

Result<Json> rope_scaling(const ArchitectureKeys& keys, const GgufTensorFacts& facts) {
  if (!facts.rope_divisors.empty()) {
    return Json{{"rope_type", "frequency_divisors"}, {"divisors", facts.rope_divisors}};
  }
  const std::string type(keys.metadata().string(keys.key("rope.scaling.type")).value_or("none"));
  if (type == "none") return Json(nullptr);
  if (type == "linear") {
    if (!keys.has("rope.scaling.factor") && !keys.has("rope.scale_linear")) return Json(nullptr);
    const char* name =
        keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    EXO_TRY(const double factor, keys.positive_number(name));
    return Json{{"rope_type", "linear"}, {"factor", factor}};
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("rope scaling \"{}\" is not supported yet", type),
              keys.key("rope.scaling.type"));
}

// What every architecture here has.
Result<Json> common_config(const ArchitectureKeys& keys, const GgufTensorFacts& facts) {
  EXO_TRY(const auto layers, keys.positive("block_count"));
  if (layers > kMaxLayers)
    return fail(ErrorCode::kInvalidInput, "more layers than any model has",
                keys.key("block_count"));
  EXO_TRY(const auto hidden, keys.positive("embedding_length"));
  EXO_TRY(const auto heads, keys.positive("attention.head_count"));
  EXO_TRY(const auto kv_heads, keys.positive("attention.head_count_kv", heads));
  EXO_TRY(const auto head_dim, keys.positive("attention.key_length", hidden / heads));
  EXO_TRY(const auto value_dim, keys.positive("attention.value_length", head_dim));
  EXO_TRY(const auto rotated, keys.positive("rope.dimension_count", head_dim));
  EXO_TRY(const auto intermediate, keys.positive("feed_forward_length"));
  EXO_TRY(const auto context, keys.positive("context_length"));
  EXO_TRY(const auto eps, keys.positive_number("attention.layer_norm_rms_epsilon"));
  EXO_TRY(Json scaling, rope_scaling(keys, facts));
  if (value_dim != head_dim || rotated != head_dim) {
    return fail(ErrorCode::kInvalidInput,
                "the lengths of keys, values and rotation must be equal in this architecture",
                keys.key("rope.dimension_count"));
  }
  return Json{{"hidden_size", hidden},
              {"num_hidden_layers", layers},
              {"intermediate_size", intermediate},
              {"num_attention_heads", heads},
              {"num_key_value_heads", kv_heads},
              {"head_dim", head_dim},
              {"rms_norm_eps", eps},
              {"rope_scaling", std::move(scaling)},
              {"max_position_embeddings", context},
              {"vocab_size", facts.vocab_size},
              {"tie_word_embeddings", !facts.has("output.weight")}};
}

Result<Json> llama_config(const ArchitectureKeys& keys, const GgufTensorFacts& facts) {
  if (keys.metadata().integer(keys.key("expert_count")).value_or(0) > 0) {
    return fail(ErrorCode::kUnsupported,
                "mixture-of-experts llama models (Mixtral) are not supported yet",
                keys.key("expert_count"));
  }
  EXO_TRY(Json config, common_config(keys, facts));
  config["model_type"] = "llama";
  EXO_TRY(config["rope_theta"], keys.positive_number("rope.freq_base", 10000));
  config["attention_bias"] = facts.has("blk.0.attn_q.bias");
  config["mlp_bias"] = facts.has("blk.0.ffn_gate.bias");
  return config;
}

// gguf.md 3.3.
Result<Json> gemma3_config(const ArchitectureKeys& keys, const GgufTensorFacts& facts) {
  constexpr int kLayersOf27B = 62;  // the one size whose scale is not that of its heads
  EXO_TRY(Json config, common_config(keys, facts));
  config["model_type"] = "gemma3_text";
  EXO_TRY(config["rope_theta"], keys.positive_number("rope.freq_base", 1e6));
  EXO_TRY(config["rope_local_base_freq"], keys.positive_number("rope.freq_base_swa", 1e4));
  EXO_TRY(config["sliding_window"], keys.positive("attention.sliding_window"));
  EXO_TRY(config["sliding_window_pattern"], keys.positive("attention.sliding_window_pattern", 6));
  config["query_pre_attn_scalar"] = config["head_dim"];
  if (config["num_hidden_layers"] == kLayersOf27B)
    config["query_pre_attn_scalar"] = config["hidden_size"].get<std::int64_t>() /
                                      config["num_attention_heads"].get<std::int64_t>();
  return config;
}

Result<void> check_kind(const GgufMetadata& metadata) {
  const std::string_view kind = metadata.string("general.type").value_or("model");
  if (kind != "model") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("this GGUF file is no model but of type \"{}\"", kind), "general.type");
  }
  const auto version = metadata.integer("general.quantization_version");
  if (version && *version != 2) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("GGUF quantisation version {} is not supported (2 is)", *version),
                "general.quantization_version");
  }
  return {};
}

// gguf.md 5.7.
constexpr std::array<std::string_view, 21> kEndTexts = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

}  // namespace

Result<Json> config_from_gguf(const GgufMetadata& metadata, const GgufTensorFacts& facts) {
  EXO_TRY(check_kind(metadata));
  const auto architecture = metadata.string("general.architecture");
  if (!architecture) {
    return fail(ErrorCode::kInvalidInput, "the GGUF file does not say its architecture",
                "general.architecture");
  }
  if (gguf_architecture(*architecture) == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("architecture \"{}\" is not supported yet ({} are)", *architecture,
                            gguf_architecture_names()),
                "general.architecture");
  }
  const ArchitectureKeys keys(metadata, std::string(*architecture));
  return *architecture == "gemma3" ? gemma3_config(keys, facts) : llama_config(keys, facts);
}

std::vector<std::uint32_t> eos_ids_from_gguf(const GgufMetadata& metadata) {
  constexpr std::int64_t kControl = 3, kUserDefined = 4;
  const auto tokens =
      metadata.strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>{});
  const auto types =
      metadata.integers("tokenizer.ggml.token_type").value_or(std::vector<std::int64_t>{});
  std::set<std::uint32_t> ids;
  for (const char* key : {"eos", "eot", "eom"}) {
    const auto id = metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", key));
    if (id && *id >= 0 && static_cast<std::uint64_t>(*id) < tokens.size())
      ids.insert(static_cast<std::uint32_t>(*id));
  }
  const auto id_of = [&](std::string_view text) -> std::optional<std::uint32_t> {
    for (std::size_t id = 0; id < std::min(tokens.size(), types.size()); ++id) {
      if (tokens[id] == text && (types[id] == kControl || types[id] == kUserDefined))
        return static_cast<std::uint32_t>(id);
    }
    return std::nullopt;
  };
  for (std::size_t id = 0; id < std::min(tokens.size(), types.size()); ++id) {
    const bool named = std::ranges::find(kEndTexts, tokens[id]) != kEndTexts.end();
    const bool special = types[id] == kControl || types[id] == kUserDefined;
    if ((special && named) || (types[id] == kControl && tokens[id] == "</s>"))
      ids.insert(static_cast<std::uint32_t>(id));
  }
  const auto end = id_of("<|end|>");
  const auto both = [&](std::string_view a, std::string_view b) { return id_of(a) && id_of(b); };
  if (end && (both("<|return|>", "<|call|>") || both("<|calls|>", "<|flush|>"))) ids.erase(*end);
  return {ids.begin(), ids.end()};
}

}  // namespace exo::models
