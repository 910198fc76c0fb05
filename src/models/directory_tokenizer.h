// The tokenizer of a directory in Hugging Face layout: tokenizer.json and what lies beside it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "models/tokenizer_source.h"

namespace exo::models {

inline constexpr const char* kTokenizerDocument = "tokenizer.json";

// Reads its files at each call.
class DirectoryTokenizer final : public TokenizerSource {
 public:
  explicit DirectoryTokenizer(std::filesystem::path directory) : directory_(std::move(directory)) {}

  Result<TokenizerFiles> tokenizer() const override;
  Result<std::string> tokenizer_json() const override;
  bool has_token(std::string_view text) const override;

 private:
  std::filesystem::path directory_;
};

}  // namespace exo::models
