// The sizes that most families read from their configuration, checked.
#pragma once

#include <cstddef>

#include "core/result.h"
#include "engine/decoder_spec.h"
#include "engine/families/config_reader.h"

namespace exo::engine::families {

// Far above any model, far below what would overflow a product of three.
inline constexpr SizeRange kWidths = {.low = 1, .high = std::size_t{1} << 20};
inline constexpr SizeRange kHeads = {.low = 1, .high = std::size_t{1} << 14};
inline constexpr SizeRange kLayers = {.low = 1, .high = 4096};
inline constexpr SizeRange kVocabularies = {.low = 1, .high = std::size_t{1} << 24};
inline constexpr SizeRange kPositions = {.low = 1, .high = std::size_t{1} << 32};
inline constexpr std::size_t kMaxHeadDim = 256;  // of kernels::attend

struct Dimensions {
  std::size_t hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0, rotated = 0;
};

// What a family takes where its configuration is silent; 0: hidden_size / heads, and heads.
struct DimensionDefaults {
  std::size_t head_dim = 0, kv_heads = 0;
};

// Errors: kInvalidInput; `subject` is the key.
Result<Dimensions> read_dimensions(const ConfigReader& config, const DimensionDefaults& defaults);

// vocab_size, max_position_embeddings and rms_norm_eps into `spec`.
Result<void> read_sizes(const ConfigReader& config, DecoderSpec& spec);

struct Biases {
  bool attention = false, mlp = false;
};

// The modules of layer `prefix` by their usual names: self_attn.{q,k,v,o}_proj,
// mlp.{gate,up,down}_proj.
AttentionSpec describe_attention(const std::string& prefix, const Dimensions& d, bool bias);
GatedSpec describe_gated(const std::string& prefix, const Dimensions& d, bool bias);

}  // namespace exo::engine::families
