// GGUF metadata → a tokenizer.json document, and what goes with it. Source: gguf.md 5.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "models/gguf_metadata.h"
#include "models/tokenizer_source.h"

namespace exo::models {

// Rebuilds the tokenizer: byte-level BPE (`gpt2`) from vocabulary, merges and the pre-tokeniser's
// name, SentencePiece's BPE (`llama`) from pieces and scores, `gemma4`'s from pieces and merges.
// Errors: kUnsupported: another model or an unknown pre-tokeniser, by name; kInvalidInput: lists
// that disagree, `subject` the key.
Result<std::string> tokenizer_json_from_gguf(const GgufMetadata& metadata);

// Whether a beginning-of-sequence id goes in front of raw prompts: what the file says, else what
// its tokenizer does. Source: gguf.md 5.5, 5.6.
bool gguf_adds_bos(const GgufMetadata& metadata);

// Special tokens and templates; what is out of range or no text is left out.
TokenizerFiles gguf_tokenizer_files(const GgufMetadata& metadata);

bool gguf_has_token(const GgufMetadata& metadata, std::string_view text);

}  // namespace exo::models
