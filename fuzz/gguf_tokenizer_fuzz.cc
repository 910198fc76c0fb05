// The tokenizer of a GGUF file, from its lists on. The input: a text to encode, the pre-tokenizer's
// name, the tokens, their types (a digit each), the merges; lists are of lines. What the lists look
// like as bytes is gguf_fuzz's part.
#include <string>
#include <vector>

#include "fuzz/exercise_tokenizer.h"
#include "fuzz/input.h"
#include "models/checkpoint_builder.h"
#include "models/gguf.h"
#include "models/gguf_tokenizer.h"

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string file_of(const std::vector<std::string_view>& parts) {
  exo::models::GgufBuilder file;
  file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", std::string(parts[1]));
  file.strings("tokenizer.ggml.tokens", lines_of(parts[2]));
  std::vector<std::int32_t> types;
  for (const char digit : parts[3]) types.push_back(digit - '0');
  if (!types.empty()) file.integers("tokenizer.ggml.token_type", types);
  file.strings("tokenizer.ggml.merges", lines_of(parts[4]));
  return file.bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static exo::fuzz::MemoryFile file("tokenizer.gguf");
  const auto parts = exo::fuzz::parts_of(exo::fuzz::text_of(data, size), 5);
  file.write(file_of(parts));
  const auto opened = exo::models::GgufFile::open(file.path());
  if (!opened) return 0;
  const auto document = exo::models::tokenizer_json_from_gguf(opened->metadata);
  if (!document) return 0;
  if (const auto tokenizer = exo::engine::Tokenizer::open(*document))
    exo::fuzz::exercise(*tokenizer, parts[0]);
  return 0;
}
