// GGUF metadata → a tokenizer.json document. Source: gguf.md 5.
#pragma once

#include <string>

#include "core/result.h"
#include "models/gguf_metadata.h"

namespace exo::models {

// Rebuilds the tokenizer: byte-level BPE (`gpt2`) from vocabulary, merges and the pre-tokeniser's
// name, SentencePiece's BPE (`llama`) from pieces and scores, `gemma4`'s from pieces and merges.
// Errors: kUnsupported: another model or an unknown pre-tokeniser, by name; kInvalidInput: lists
// that disagree, `subject` the key.
Result<std::string> tokenizer_json_from_gguf(const GgufMetadata& metadata);

// Whether a beginning-of-sequence id goes in front of raw prompts: what the file says, else what
// its tokenizer does. Source: gguf.md 5.5, 5.6.
bool gguf_adds_bos(const GgufMetadata& metadata);

}  // namespace exo::models
