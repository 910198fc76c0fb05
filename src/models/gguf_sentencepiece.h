// SentencePiece's BPE out of a GGUF file's scores → a tokenizer.json document. Source:
// gguf.md 5.4, 5.5.
#pragma once

#include <string>

#include "core/result.h"
#include "models/gguf_metadata.h"

namespace exo::models {

// `llama`: pieces with scores and no merges. Errors: kInvalidInput: lists that disagree, a byte
// token that names no byte; `subject` is the key.
Result<std::string> sentencepiece_json_from_gguf(const GgufMetadata& metadata);

// `gemma4`: the same text rules with a list of merges. Errors: as above.
Result<std::string> gemma4_json_from_gguf(const GgufMetadata& metadata);

}  // namespace exo::models
