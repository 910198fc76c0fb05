// GGUF metadata → config.json in Hugging Face's words. Source: gguf.md 3.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "models/gguf_metadata.h"

namespace exo::models {

// What the tensors of the file add to the configuration.
struct GgufTensorFacts {
  std::size_t vocab_size = 0;  // rows of token_embd.weight
  std::function<bool(std::string_view gguf_name)> has;
  std::vector<float> rope_divisors = {};  // rope_freqs.weight, f32[rotated / 2]; empty: none
};

// Errors: kUnsupported: an architecture, adapter or projector by name; kInvalidInput: a missing or
// impossible value, `subject` the key.
Result<Json> config_from_gguf(const GgufMetadata& metadata, const GgufTensorFacts& facts);

// The ids that end a generation, sorted. Source: gguf.md 5.7.
std::vector<std::uint32_t> eos_ids_from_gguf(const GgufMetadata& metadata);

}  // namespace exo::models
