// The token lists of a GGUF file, and how they are written in a tokenizer.json. Source:
// gguf.md 5.1, 5.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "models/gguf_metadata.h"

namespace exo::models {

enum TokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Borrows the texts from the file.
struct GgufVocabulary {
  std::vector<std::string_view> tokens;
  std::vector<std::int64_t> types;  // one per token, or none: all are normal

  std::int64_t type(std::size_t id) const {
    return types.empty() ? std::int64_t{kNormal} : types[id];
  }
  bool is_used(std::size_t id) const;
  bool is_added(std::size_t id) const;  // matched in text before the model sees it
};

// Errors: kInvalidInput: no vocabulary, or types that are fewer than the tokens.
Result<GgufVocabulary> read_gguf_vocabulary(const GgufMetadata& metadata);

// Gives the text under which the token of an id stands in the vocabulary.
using TokenText = std::function<std::string_view(std::size_t)>;

// {"text":id,…} of the tokens in use. A token that is no text is left out: no input can match it.
// Errors: kInvalidInput: two tokens of one text.
Result<std::string> vocabulary_json(const GgufVocabulary& vocabulary, const TokenText& text_of);

// The file's list of merges as pairs, without those whose parts or result are no tokens. Errors:
// kInvalidInput: no list, or a merge that is not two parts.
Result<Json> gguf_merges_json(const GgufMetadata& metadata, const GgufVocabulary& vocabulary);

// The list of added tokens; those that are no text are left out.
Json added_tokens_json(const GgufVocabulary& vocabulary, const TokenText& text_of);

}  // namespace exo::models
