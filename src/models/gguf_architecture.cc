#include "models/gguf_architecture.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <vector>

namespace exo::models {
namespace {

constexpr std::array kTopNames = {GgufNamePair{"model.embed_tokens", "token_embd"},
                                  GgufNamePair{"model.norm", "output_norm"},
                                  GgufNamePair{"lm_head", "output"}};
constexpr std::array kLlamaNames = {
    GgufNamePair{"input_layernorm", "attn_norm"},
    GgufNamePair{"post_attention_layernorm", "ffn_norm"},
    GgufNamePair{"self_attn.q_proj", "attn_q"},
    GgufNamePair{"self_attn.k_proj", "attn_k"},
    GgufNamePair{"self_attn.v_proj", "attn_v"},
    GgufNamePair{"self_attn.o_proj", "attn_output"},
    GgufNamePair{"mlp.gate_proj", "ffn_gate"},
    GgufNamePair{"mlp.up_proj", "ffn_up"},
    GgufNamePair{"mlp.down_proj", "ffn_down"},
};
constexpr std::array kGemma3Names = {
    GgufNamePair{"input_layernorm", "attn_norm"},
    GgufNamePair{"post_attention_layernorm", "post_attention_norm"},
    GgufNamePair{"pre_feedforward_layernorm", "ffn_norm"},
    GgufNamePair{"post_feedforward_layernorm", "post_ffw_norm"},
    GgufNamePair{"self_attn.q_norm", "attn_q_norm"},
    GgufNamePair{"self_attn.k_norm", "attn_k_norm"},
    GgufNamePair{"self_attn.q_proj", "attn_q"},
    GgufNamePair{"self_attn.k_proj", "attn_k"},
    GgufNamePair{"self_attn.v_proj", "attn_v"},
    GgufNamePair{"self_attn.o_proj", "attn_output"},
    GgufNamePair{"mlp.gate_proj", "ffn_gate"},
    GgufNamePair{"mlp.up_proj", "ffn_up"},
    GgufNamePair{"mlp.down_proj", "ffn_down"},
};

constexpr std::array kArchitectures = {
    GgufArchitecture{.name = "gemma3", .layer_names = kGemma3Names, .norms_hold_one_plus = true},
    GgufArchitecture{.name = "llama", .layer_names = kLlamaNames, .interleaves_heads = true},
};

std::optional<std::string_view> look_up(std::span<const GgufNamePair> names,
                                        std::string_view module) {
  const auto found = std::ranges::find(names, module, &GgufNamePair::hugging_face);
  return found == names.end() ? std::nullopt : std::optional(found->gguf);
}

}  // namespace

const GgufArchitecture* gguf_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

std::string gguf_architecture_names() {
  std::vector<std::string_view> names;
  for (const GgufArchitecture& architecture : kArchitectures) names.push_back(architecture.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::string> gguf_module(const GgufArchitecture& architecture,
                                       std::string_view module) {
  if (const auto top = look_up(kTopNames, module)) return std::string(*top);
  constexpr std::string_view kLayers = "model.layers.";
  if (!module.starts_with(kLayers)) return std::nullopt;
  module.remove_prefix(kLayers.size());
  const std::size_t dot = module.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto name = look_up(architecture.layer_names, module.substr(dot + 1));
  if (!name) return std::nullopt;
  return fmt::format("blk.{}.{}", module.substr(0, dot), *name);
}

}  // namespace exo::models
