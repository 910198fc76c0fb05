// The llama family: Llama 2 and 3.x, SmolLM2, Mistral 7B, Nemotron-Llama. Source: models.md 3.1.
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/families/config_reader.h"
#include "engine/families/dimensions.h"
#include "engine/families/families.h"
#include "engine/families/rope_config.h"

namespace exo::engine::families {
namespace {

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

LayerSpec describe_layer(std::size_t index, const Dimensions& d, std::size_t window,
                         const Biases& biases) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  AttentionSpec attention = describe_attention(prefix, d, biases.attention);
  attention.window = window;
  return {.mixer_norm = {.tensor = prefix + "input_layernorm.weight"},
          .mixer = std::move(attention),
          .feed_forward_norm = {.tensor = prefix + "post_attention_layernorm.weight"},
          .feed_forward = describe_gated(prefix, d, biases.mlp)};
}

}  // namespace

Result<DecoderSpec> describe_llama(const Json& json) {
  const ConfigReader config(json);
  EXO_TRY(const std::string activation, config.text("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish")
    return fail(ErrorCode::kUnsupported,
                fmt::format("the activation {} is not supported", in_quotes(activation)),
                "hidden_act");
  EXO_TRY(const Dimensions dimensions, read_dimensions(config, {}));
  EXO_TRY(const std::size_t layers, config.size("num_hidden_layers", kLayers));
  EXO_TRY(const std::vector<std::size_t> windows, read_windows(json, config, layers));
  Biases biases;
  EXO_TRY(biases.attention, config.flag("attention_bias", false));
  EXO_TRY(biases.mlp, config.flag("mlp_bias", false));
  EXO_TRY(const bool tied, config.flag("tie_word_embeddings", true));

  DecoderSpec spec{.hidden_size = dimensions.hidden,
                   .embedding = "model.embed_tokens",
                   .final_norm = {.tensor = "model.norm.weight"}};
  EXO_TRY(read_sizes(config, spec));
  EXO_TRY(RopeSpec rope, read_rope(json, dimensions.rotated, 10000));
  spec.ropes.push_back(std::move(rope));
  if (!tied)
    spec.head = LinearSpec{.name = "lm_head", .rows = spec.vocab_size, .cols = spec.hidden_size};
  for (std::size_t i = 0; i < layers; ++i)
    spec.layers.push_back(describe_layer(i, dimensions, windows[i], biases));
  return spec;
}

}  // namespace exo::engine::families
