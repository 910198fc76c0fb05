#include "engine/families/dimensions.h"

#include <cmath>
#include <fmt/format.h>
#include <string>

namespace exo::engine::families {

Result<Dimensions> read_dimensions(const ConfigReader& config, const DimensionDefaults& defaults) {
  Dimensions d;
  EXO_TRY(d.hidden, config.size("hidden_size", kWidths));
  EXO_TRY(d.intermediate, config.size("intermediate_size", kWidths));
  EXO_TRY(d.heads, config.size("num_attention_heads", kHeads));
  EXO_TRY(d.kv_heads, config.size("num_key_value_heads", kHeads,
                                  defaults.kv_heads > 0 ? defaults.kv_heads : d.heads));
  if (d.heads % d.kv_heads != 0)
    return config.wrong("num_key_value_heads", fmt::format("must divide the {} heads", d.heads));
  const bool divided = defaults.head_dim == 0;
  if (divided && !config.has("head_dim") && d.hidden % d.heads != 0)
    return config.wrong("num_attention_heads", fmt::format("must divide hidden_size {}", d.hidden));
  EXO_TRY(d.head_dim, config.size("head_dim", {.low = 2, .high = kMaxHeadDim},
                                  divided ? d.hidden / d.heads : defaults.head_dim));
  if (d.head_dim % 2 != 0 || d.head_dim < 2 || d.head_dim > kMaxHeadDim)
    return config.wrong("head_dim", fmt::format("must be even and at most {}", kMaxHeadDim));
  EXO_TRY(const double rotated, config.number("partial_rotary_factor", {.low = 0, .high = 1}, 1));
  d.rotated = static_cast<std::size_t>(rotated * static_cast<double>(d.head_dim));
  if (d.rotated == 0 || d.rotated % 2 != 0)
    return config.wrong("partial_rotary_factor", "must leave an even number of dimensions");
  return d;
}

Result<void> read_sizes(const ConfigReader& config, DecoderSpec& spec) {
  EXO_TRY(spec.vocab_size, config.size("vocab_size", kVocabularies));
  EXO_TRY(spec.context_length, config.size("max_position_embeddings", kPositions, 0));
  EXO_TRY(const double eps, config.number("rms_norm_eps", {.low = 0, .high = 1}));
  spec.norm_eps = static_cast<float>(eps);
  return {};
}

AttentionSpec describe_attention(const std::string& prefix, const Dimensions& d, bool bias) {
  const std::size_t q_size = d.heads * d.head_dim, kv_size = d.kv_heads * d.head_dim;
  const auto linear = [&](const char* name, std::size_t rows, std::size_t cols) {
    return LinearSpec{
        .name = prefix + "self_attn." + name, .rows = rows, .cols = cols, .bias = bias};
  };
  return {.heads = d.heads,
          .kv_heads = d.kv_heads,
          .head_dim = d.head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(d.head_dim)),
          .q = linear("q_proj", q_size, d.hidden),
          .k = linear("k_proj", kv_size, d.hidden),
          .v = linear("v_proj", kv_size, d.hidden),
          .o = linear("o_proj", d.hidden, q_size)};
}

GatedSpec describe_gated(const std::string& prefix, const Dimensions& d, bool bias) {
  const auto linear = [&](const char* name, std::size_t rows, std::size_t cols) {
    return LinearSpec{.name = prefix + "mlp." + name, .rows = rows, .cols = cols, .bias = bias};
  };
  return {.gate = linear("gate_proj", d.intermediate, d.hidden),
          .up = linear("up_proj", d.intermediate, d.hidden),
          .down = linear("down_proj", d.hidden, d.intermediate)};
}

}  // namespace exo::engine::families
