#include "models/gguf_vocabulary.h"

#include <fmt/format.h>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/utf8.h"

namespace exo::models {

bool GgufVocabulary::is_used(std::size_t id) const {
  const std::int64_t t = type(id);
  return t == kNormal || t == kUnknown || t == kControl || t == kUserDefined || t == kByte;
}

bool GgufVocabulary::is_added(std::size_t id) const {
  const std::int64_t t = type(id);
  return t == kControl || t == kUnknown || t == kUserDefined;
}

Result<GgufVocabulary> read_gguf_vocabulary(const GgufMetadata& metadata) {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  GgufVocabulary vocabulary;
  auto tokens = metadata.strings(kTokens);
  if (!tokens || tokens->empty())
    return fail(ErrorCode::kInvalidInput, "the GGUF file holds no vocabulary", kTokens);
  vocabulary.tokens = std::move(*tokens);
  if (metadata.has(kTypes)) {
    auto types = metadata.integers(kTypes);
    if (!types || types->size() < vocabulary.tokens.size()) {
      return fail(ErrorCode::kInvalidInput,
                  "the list of token types is shorter than the vocabulary", kTypes);
    }
    vocabulary.types = std::move(*types);
  }
  return vocabulary;
}

// Written directly: an ordered_json object would look for duplicates in linear time, and a
// vocabulary of 262,144 tokens as JSON values would cost ten times its text.
Result<std::string> vocabulary_json(const GgufVocabulary& vocabulary, const TokenText& text_of) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(vocabulary.tokens.size());
  std::string text = "{";
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view token = text_of(id);
    if (!vocabulary.is_used(id) || token.empty() || !is_valid_utf8(token)) continue;
    if (!seen.insert(token).second) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("token {} has the text of another token", id),
                  "tokenizer.ggml.tokens");
    }
    if (text.size() > 1) text += ',';
    text += dump_json(Json(token));
    text += ':';
    text += std::to_string(id);
  }
  return text + "}";
}

Result<Json> gguf_merges_json(const GgufMetadata& metadata, const GgufVocabulary& vocabulary) {
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  const auto lines = metadata.strings(kMerges);
  if (!lines) return fail(ErrorCode::kInvalidInput, "the GGUF file holds no merges", kMerges);
  std::unordered_set<std::string_view> known;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.is_used(id)) known.insert(vocabulary.tokens[id]);
  }
  Json merges = Json::array();
  std::string joined;
  for (const std::string_view line : *lines) {
    const std::size_t space = line.find(' ', 1);
    if (line.size() < 3 || space == std::string_view::npos) {
      return fail(ErrorCode::kInvalidInput, fmt::format("merge {} is not two parts", merges.size()),
                  kMerges);
    }
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    joined.assign(left).append(right);
    if (known.contains(left) && known.contains(right) && known.contains(joined))
      merges.push_back({left, right});
  }
  return merges;
}

Json added_tokens_json(const GgufVocabulary& vocabulary, const TokenText& text_of) {
  Json added = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view text = text_of(id);
    if (!vocabulary.is_added(id) || text.empty() || !is_valid_utf8(text)) continue;
    added.push_back({{"id", id},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", vocabulary.type(id) != kUserDefined}});
  }
  return added;
}

}  // namespace exo::models
