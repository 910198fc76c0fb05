#include "models/tokenizer_source.h"

#include <algorithm>
#include <utility>

#include "models/directory_tokenizer.h"
#include "models/gguf.h"
#include "models/gguf_tokenizer.h"

namespace exo::models {
namespace {

using std::filesystem::path;

// A GGUF file whose tensors, if it has any, nobody asks for.
class GgufTokenizerSource final : public TokenizerSource {
 public:
  explicit GgufTokenizerSource(GgufFile file) : file_(std::move(file)) {}

  Result<TokenizerFiles> tokenizer() const override { return gguf_tokenizer_files(file_.metadata); }
  Result<std::string> tokenizer_json() const override {
    return tokenizer_json_from_gguf(file_.metadata);
  }
  bool has_token(std::string_view text) const override {
    return gguf_has_token(file_.metadata, text);
  }

 private:
  GgufFile file_;
};

Result<std::unique_ptr<TokenizerSource>> open_gguf_tokenizer(const path& file) {
  EXO_TRY(GgufFile opened, GgufFile::open(file));
  if (opened.metadata.integer("split.no").value_or(0) > 0)
    return fail(ErrorCode::kInvalidInput, "the tokenizer is in the first file of a split model",
                file);
  return std::make_unique<GgufTokenizerSource>(std::move(opened));
}

}  // namespace

const ChatTemplate* default_template(const TokenizerFiles& files) {
  const auto& templates = files.chat_templates;
  const auto found = std::ranges::find(templates, "default", &ChatTemplate::name);
  if (found != templates.end()) return &*found;
  return templates.empty() ? nullptr : &templates.front();
}

Result<std::unique_ptr<TokenizerSource>> open_tokenizer_source(const path& source) {
  std::error_code error;
  const auto status = std::filesystem::status(source, error);
  if (!std::filesystem::exists(status))
    return fail(ErrorCode::kNotFound, "no such file or directory", source);
  if (std::filesystem::is_directory(status)) {
    if (std::filesystem::exists(source / kTokenizerDocument, error))
      return std::make_unique<DirectoryTokenizer>(source);
    EXO_TRY(const path file, gguf_in(source));
    return open_gguf_tokenizer(file);
  }
  if (source.extension() == ".gguf") return open_gguf_tokenizer(source);
  if (source.filename() == kTokenizerDocument)
    return std::make_unique<DirectoryTokenizer>(source.has_parent_path() ? source.parent_path()
                                                                         : path("."));
  return fail(ErrorCode::kInvalidInput,
              "no tokenizer: name a .gguf file, a tokenizer.json or a directory with one", source);
}

}  // namespace exo::models
