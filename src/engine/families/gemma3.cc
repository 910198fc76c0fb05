// The gemma3 family: Gemma 3 text models, alone (`gemma3_text`) or inside the multimodal wrapper
// (`gemma3`), whose text part is used. Source: models.md 3.15.
#include <cmath>
#include <fmt/format.h>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/half.h"
#include "engine/families/config_reader.h"
#include "engine/families/dimensions.h"
#include "engine/families/families.h"
#include "engine/families/rope_config.h"

namespace exo::engine::families {
namespace {

constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;
enum RopeIndex : std::size_t { kGlobalRope, kLocalRope };

struct Layers {
  std::size_t count = 0, window = 0, pattern = 0;
  float scale = 1;
};

// The configuration with what Gemma 3 takes where it is silent: published files leave most out.
Json with_defaults(Json config, bool in_wrapper) {
  const Json defaults = {{"hidden_size", 1152},
                         {"num_hidden_layers", 26},
                         {"intermediate_size", 6912},
                         {"num_attention_heads", in_wrapper ? 8 : 4},
                         {"num_key_value_heads", in_wrapper ? 4 : 1},
                         {"head_dim", 256},
                         {"rms_norm_eps", 1e-6},
                         {"vocab_size", in_wrapper ? 262208 : 262144},
                         {"query_pre_attn_scalar", 256},
                         {"sliding_window", 512},
                         {"sliding_window_pattern", 6},
                         {"max_position_embeddings", 32768}};
  for (const auto& [key, value] : defaults.items())
    if (!config.contains(key) || config[key].is_null()) config[key] = value;
  return config;
}

// rope_parameters of newer files: one object for each kind of layer.
Result<RopeSpec> read_layer_rope(const Json& config, const char* kind, const char* theta_key,
                                 double default_theta, std::size_t rotated) {
  const auto parameters = config.find("rope_parameters");
  if (parameters != config.end() && parameters->is_object() && parameters->contains(kind))
    return read_rope(Json{{"rope_scaling", (*parameters)[kind]}}, rotated, default_theta);
  EXO_TRY(const double theta,
          ConfigReader(config).number(theta_key, {.low = 1e-3, .high = 1e30}, default_theta));
  const bool is_global = std::string_view(theta_key) == "rope_theta";
  return read_rope(
      Json{{"rope_scaling", is_global ? config.value("rope_scaling", Json()) : Json()}}, rotated,
      theta);
}

NormSpec norm(std::string tensor) { return {.tensor = std::move(tensor), .one_plus = true}; }

LayerSpec describe_layer(const std::string& root, std::size_t index, const Dimensions& d,
                         const Layers& layers) {
  const std::string prefix = fmt::format("{}layers.{}.", root, index);
  const bool is_global = (index + 1) % layers.pattern == 0;
  AttentionSpec attention = describe_attention(prefix, d, /*bias=*/false);
  attention.window = is_global ? 0 : layers.window;
  attention.rope = is_global ? kGlobalRope : kLocalRope;
  attention.scale = layers.scale;
  attention.q_norm = norm(prefix + "self_attn.q_norm.weight");
  attention.k_norm = norm(prefix + "self_attn.k_norm.weight");
  GatedSpec gated = describe_gated(prefix, d, /*bias=*/false);
  gated.activation = kernels::Activation::kGelu;
  return {.mixer_norm = norm(prefix + "input_layernorm.weight"),
          .mixer = std::move(attention),
          .mixer_post_norm = norm(prefix + "post_attention_layernorm.weight"),
          .feed_forward_norm = norm(prefix + "pre_feedforward_layernorm.weight"),
          .feed_forward = std::move(gated),
          .feed_forward_post_norm = norm(prefix + "post_feedforward_layernorm.weight")};
}

Result<Layers> read_layers(const ConfigReader& config) {
  Layers layers;
  EXO_TRY(layers.count, config.size("num_hidden_layers", kLayers));
  EXO_TRY(layers.window, config.size("sliding_window", kPositions));
  EXO_TRY(layers.pattern, config.size("sliding_window_pattern", kLayers));
  EXO_TRY(const double scalar, config.number("query_pre_attn_scalar", {.low = 1e-3, .high = 1e6}));
  layers.scale = static_cast<float>(1 / std::sqrt(scalar));
  return layers;
}

Result<DecoderSpec> describe_text(const Json& json, const std::string& prefix) {
  const ConfigReader config(json);
  EXO_TRY(const std::string activation, config.text("hidden_activation", "gelu_pytorch_tanh"));
  if (activation != "gelu_pytorch_tanh")
    return fail(ErrorCode::kUnsupported,
                fmt::format("the activation {} is not supported", in_quotes(activation)),
                "hidden_activation");
  EXO_TRY(const Dimensions d, read_dimensions(config, {}));
  EXO_TRY(const Layers layers, read_layers(config));
  const std::string root = prefix + "model.";
  DecoderSpec spec{
      .hidden_size = d.hidden,
      .embedding = root + "embed_tokens",
      // The reference rounds the root to bf16.
      .embedding_scale = bf16_to_float(float_to_bf16(std::sqrt(static_cast<float>(d.hidden)))),
      .final_norm = norm(root + "norm.weight"),
      .head_is_optional = true};
  EXO_TRY(read_sizes(config, spec));
  spec.head =
      LinearSpec{.name = prefix + "lm_head", .rows = spec.vocab_size, .cols = spec.hidden_size};
  EXO_TRY(RopeSpec global,
          read_layer_rope(json, "full_attention", "rope_theta", kGlobalTheta, d.rotated));
  EXO_TRY(RopeSpec local, read_layer_rope(json, "sliding_attention", "rope_local_base_freq",
                                          kLocalTheta, d.rotated));
  spec.ropes = {std::move(global), std::move(local)};
  for (std::size_t i = 0; i < layers.count; ++i)
    spec.layers.push_back(describe_layer(root, i, d, layers));
  return spec;
}

}  // namespace

Result<DecoderSpec> describe_gemma3(const Json& config) {
  const auto text = config.find("text_config");
  if (text == config.end()) return describe_text(with_defaults(config, false), "");
  if (!text->is_object()) return fail(ErrorCode::kInvalidInput, "must be an object", "text_config");
  return describe_text(with_defaults(*text, true), "language_model.");
}

}  // namespace exo::engine::families
