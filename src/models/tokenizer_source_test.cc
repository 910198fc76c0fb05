#include "models/tokenizer_source.h"

#include <gtest/gtest.h>
#include <string>

#include "models/checkpoint.h"
#include "models/checkpoint_builder.h"

namespace exo::models {
namespace {

class TokenizerSourceTest : public testing::Test {
 protected:
  std::filesystem::path write(const char* name, const std::string& bytes) {
    write_bytes(directory_.path() / name, bytes);
    return directory_.path() / name;
  }

  static std::string vocabulary() {
    return GgufBuilder()
        .string("general.architecture", "llama")
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", {"<s>", "a", "b", "ab"})
        .integers("tokenizer.ggml.token_type", {3, 1, 1, 1})
        .strings("tokenizer.ggml.merges", {"a b"})
        .u32("tokenizer.ggml.bos_token_id", 0)
        .string("tokenizer.chat_template", "{{ messages }}")
        .string("tokenizer.chat_template.tool_use", "{{ tools }}")
        .bytes();
  }

  TestDirectory directory_;
};

TEST_F(TokenizerSourceTest, AVocabularyWithoutAModelIsEnough) {
  const auto path = write("vocabulary.gguf", vocabulary());
  EXPECT_FALSE(open_checkpoint(path));
  // The directory that holds it will do, too.
  for (const auto& place : {path, directory_.path()}) {
    const auto source = open_tokenizer_source(place);
    ASSERT_TRUE(source) << to_string(source.error());
    const auto files = (*source)->tokenizer();
    ASSERT_TRUE(files);
    EXPECT_EQ(files->special_tokens.at("bos_token"), "<s>");
    ASSERT_EQ(files->chat_templates.size(), 2U);
    EXPECT_EQ(default_template(*files)->text, "{{ messages }}");
    EXPECT_TRUE((*source)->has_token("ab"));
    EXPECT_FALSE((*source)->has_token("ba"));
    EXPECT_NE((*source)->tokenizer_json().value().find("\"merges\":[[\"a\",\"b\"]]"),
              std::string::npos);
  }
}

TEST_F(TokenizerSourceTest, ADocumentIsEnoughByItselfAndInItsDirectory) {
  const auto path = write("tokenizer.json", R"({"model": {"vocab": {"x": 0}}})");
  write("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "chat_template": "T"})");
  for (const auto& place : {path, directory_.path()}) {
    const auto source = open_tokenizer_source(place);
    ASSERT_TRUE(source) << to_string(source.error());
    EXPECT_EQ((*source)->tokenizer_json(), R"({"model": {"vocab": {"x": 0}}})");
    EXPECT_EQ((*source)->tokenizer()->special_tokens.at("eos_token"), "</s>");
    EXPECT_EQ((*source)->tokenizer()->chat_templates.front().text, "T");
    EXPECT_TRUE((*source)->has_token("x"));
  }
}

TEST_F(TokenizerSourceTest, WithoutATemplateThereIsNone) {
  EXPECT_EQ(default_template({}), nullptr);
  TokenizerFiles files;
  files.chat_templates = {{"tool_use", "x"}, {"other", "y"}};
  EXPECT_EQ(default_template(files)->name, "tool_use");
}

TEST_F(TokenizerSourceTest, RefusesWhatHoldsNoTokenizer) {
  const auto code = [](const std::filesystem::path& path) {
    return open_tokenizer_source(path).error().code;
  };
  EXPECT_EQ(code(directory_.path() / "nothing"), ErrorCode::kNotFound);
  EXPECT_EQ(code(directory_.path()), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(write("notes.txt", "hello")), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(write("broken.gguf", "GGUF")), ErrorCode::kInvalidInput);
  const auto second =
      write("part.gguf", GgufBuilder().u32("split.no", 1).u32("split.count", 2).bytes());
  EXPECT_NE(open_tokenizer_source(second).error().message.find("first file"), std::string::npos);
}

}  // namespace
}  // namespace exo::models
