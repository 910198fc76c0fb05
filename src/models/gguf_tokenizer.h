// GGUF metadata → a tokenizer.json document. Source: gguf.md 5.
#pragma once

#include <string>

#include "core/result.h"
#include "models/gguf_metadata.h"

namespace exo::models {

// Rebuilds the tokenizer of a byte-level BPE model (`gpt2`): vocabulary, merges, pre-tokeniser by
// name, added tokens. Errors: kUnsupported: another model or an unknown pre-tokeniser, by name;
// kInvalidInput: lists that disagree, `subject` the key.
Result<std::string> tokenizer_json_from_gguf(const GgufMetadata& metadata);

// Whether a beginning-of-sequence id goes in front of raw prompts when the file does not say.
// Source: gguf.md 5.6.
bool gguf_adds_bos_by_default(const GgufMetadata& metadata);

}  // namespace exo::models
