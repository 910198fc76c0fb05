// The llama family: Llama 2 and 3.x, SmolLM2, Mistral 7B, Nemotron-Llama. Source: models.md 3.1.
#include <cmath>
#include <fmt/format.h>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/families/config_reader.h"
#include "engine/families/families.h"
#include "engine/families/rope_config.h"

namespace exo::engine::families {
namespace {

// Far above any model, far below what would overflow a product of three.
constexpr SizeRange kWidths = {.low = 1, .high = std::size_t{1} << 20};
constexpr SizeRange kHeads = {.low = 1, .high = std::size_t{1} << 14};
constexpr SizeRange kLayers = {.low = 1, .high = 4096};
constexpr SizeRange kVocabularies = {.low = 1, .high = std::size_t{1} << 24};
constexpr SizeRange kPositions = {.low = 1, .high = std::size_t{1} << 32};
constexpr std::size_t kMaxHeadDim = 256;  // of kernels::attend

struct Dimensions {
  std::size_t hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0, rotated = 0;
};

Result<Dimensions> read_dimensions(const ConfigReader& config) {
  Dimensions d;
  EXO_TRY(d.hidden, config.size("hidden_size", kWidths));
  EXO_TRY(d.intermediate, config.size("intermediate_size", kWidths));
  EXO_TRY(d.heads, config.size("num_attention_heads", kHeads));
  EXO_TRY(d.kv_heads, config.size("num_key_value_heads", kHeads, d.heads));
  if (d.heads % d.kv_heads != 0)
    return config.wrong("num_key_value_heads", fmt::format("must divide the {} heads", d.heads));
  if (!config.has("head_dim") && d.hidden % d.heads != 0)
    return config.wrong("num_attention_heads", fmt::format("must divide hidden_size {}", d.hidden));
  EXO_TRY(d.head_dim, config.size("head_dim", {.low = 2, .high = kMaxHeadDim}, d.hidden / d.heads));
  if (d.head_dim % 2 != 0 || d.head_dim < 2 || d.head_dim > kMaxHeadDim)
    return config.wrong("head_dim", fmt::format("must be even and at most {}", kMaxHeadDim));
  EXO_TRY(const double rotated, config.number("partial_rotary_factor", {.low = 0, .high = 1}, 1));
  d.rotated = static_cast<std::size_t>(rotated * static_cast<double>(d.head_dim));
  if (d.rotated == 0 || d.rotated % 2 != 0)
    return config.wrong("partial_rotary_factor", "must leave an even number of dimensions");
  return d;
}

// The attention window of each layer, 0 for full attention. A sliding_window without layer_types
// (Mistral) has no effect.
Result<std::vector<std::size_t>> read_windows(const Json& json, const ConfigReader& config,
                                              std::size_t layers) {
  std::vector<std::size_t> windows(layers, 0);
  if (!config.has("layer_types")) return windows;
  const Json& types = json["layer_types"];
  if (!types.is_array() || types.size() < layers)
    return config.wrong("layer_types", fmt::format("must be a list of {} names", layers));
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string type = types[i].is_string() ? types[i].get<std::string>() : std::string();
    if (type == "sliding_attention") {
      EXO_TRY(windows[i], config.size("sliding_window", kPositions));
    } else if (type != "full_attention") {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("layers of type {} are not supported", in_quotes(type)),
                  "layer_types");
    }
  }
  return windows;
}

struct Biases {
  bool attention = false, mlp = false;
};

LayerSpec describe_layer(std::size_t index, const Dimensions& d, std::size_t window,
                         const Biases& biases) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  const auto linear = [&](const char* module, std::size_t rows, std::size_t cols, bool bias) {
    return LinearSpec{.name = prefix + module, .rows = rows, .cols = cols, .bias = bias};
  };
  const std::size_t q_size = d.heads * d.head_dim, kv_size = d.kv_heads * d.head_dim;
  return {
      .mixer_norm = prefix + "input_layernorm.weight",
      .mixer = AttentionSpec{.heads = d.heads,
                             .kv_heads = d.kv_heads,
                             .head_dim = d.head_dim,
                             .window = window,
                             .scale = 1 / std::sqrt(static_cast<float>(d.head_dim)),
                             .rope = 0,
                             .q = linear("self_attn.q_proj", q_size, d.hidden, biases.attention),
                             .k = linear("self_attn.k_proj", kv_size, d.hidden, biases.attention),
                             .v = linear("self_attn.v_proj", kv_size, d.hidden, biases.attention),
                             .o = linear("self_attn.o_proj", d.hidden, q_size, biases.attention)},
      .feed_forward_norm = prefix + "post_attention_layernorm.weight",
      .feed_forward =
          SwigluSpec{.gate = linear("mlp.gate_proj", d.intermediate, d.hidden, biases.mlp),
                     .up = linear("mlp.up_proj", d.intermediate, d.hidden, biases.mlp),
                     .down = linear("mlp.down_proj", d.hidden, d.intermediate, biases.mlp)}};
}

}  // namespace

Result<DecoderSpec> describe_llama(const Json& json) {
  const ConfigReader config(json);
  EXO_TRY(const std::string activation, config.text("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish")
    return fail(ErrorCode::kUnsupported,
                fmt::format("the activation {} is not supported", in_quotes(activation)),
                "hidden_act");
  EXO_TRY(const Dimensions dimensions, read_dimensions(config));
  EXO_TRY(const std::size_t layers, config.size("num_hidden_layers", kLayers));
  EXO_TRY(const std::vector<std::size_t> windows, read_windows(json, config, layers));
  Biases biases;
  EXO_TRY(biases.attention, config.flag("attention_bias", false));
  EXO_TRY(biases.mlp, config.flag("mlp_bias", false));
  EXO_TRY(const bool tied, config.flag("tie_word_embeddings", true));

  DecoderSpec spec{.hidden_size = dimensions.hidden,
                   .embedding = "model.embed_tokens",
                   .final_norm = "model.norm.weight"};
  EXO_TRY(spec.vocab_size, config.size("vocab_size", kVocabularies));
  EXO_TRY(spec.context_length, config.size("max_position_embeddings", kPositions, 0));
  EXO_TRY(const double eps, config.number("rms_norm_eps", {.low = 0, .high = 1}));
  spec.norm_eps = static_cast<float>(eps);
  EXO_TRY(RopeSpec rope, read_rope(json, dimensions.rotated, 10000));
  spec.ropes.push_back(std::move(rope));
  if (!tied)
    spec.head = LinearSpec{.name = "lm_head", .rows = spec.vocab_size, .cols = spec.hidden_size};
  for (std::size_t i = 0; i < layers; ++i)
    spec.layers.push_back(describe_layer(i, dimensions, windows[i], biases));
  return spec;
}

}  // namespace exo::engine::families
