// What turns text into ids, in a model's files: the tokenizer, its special tokens, its templates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace exo::models {

struct ChatTemplate {
  std::string name;  // "default", "tool_use", …
  std::string text;  // Jinja
};

// What goes with a tokenizer: its own document is large, and has its own call.
struct TokenizerFiles {
  std::map<std::string, std::string>
      special_tokens;                        // "bos_token" → "<s>": variables of the template
  std::vector<ChatTemplate> chat_templates;  // may be empty
  bool add_bos = false;                      // for raw prompts: put bos_token_id in front
  std::optional<std::uint32_t> bos_token_id;
};

// The template that a request without tools gets; nullptr: there is none. Points into `files`.
const ChatTemplate* default_template(const TokenizerFiles& files);

// Immutable and thread-safe once open.
class TokenizerSource {
 public:
  virtual ~TokenizerSource() = default;

  virtual Result<TokenizerFiles> tokenizer() const = 0;
  // A document of the tokenizers library, read or rebuilt; seconds of work for a large vocabulary.
  // Errors: kNotFound, kInvalidInput, kUnsupported, naming what is missing.
  virtual Result<std::string> tokenizer_json() const = 0;
  virtual bool has_token(std::string_view text) const = 0;  // without rebuilding the tokenizer
};

// Opens no more than a tokenizer needs: a .gguf file, a vocabulary without a model included, a
// directory with tokenizer.json or one GGUF model, or a tokenizer.json by itself. Errors:
// kNotFound: no such path; kInvalidInput: no tokenizer there, or a damaged file.
Result<std::unique_ptr<TokenizerSource>> open_tokenizer_source(const std::filesystem::path& path);

}  // namespace exo::models
