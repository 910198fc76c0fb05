#include "engine/tokenizer.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json.h"
#include "core/strings.h"
#include "engine/detokenizer.h"
#include "models/checkpoint.h"

namespace exo::engine {
namespace {

// The tokenizer of the GGUF file that an environment variable of ./bootstrap test names.
std::unique_ptr<Tokenizer> open_named(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) {
    ADD_FAILURE() << "set " << variable << " to a model's GGUF file, as ./bootstrap test does";
    return nullptr;
  }
  const auto document = models::open_checkpoint(path).value()->tokenizer_json();
  EXPECT_TRUE(document) << to_string(document.error());
  auto opened = Tokenizer::open(document.value());
  EXPECT_TRUE(opened) << to_string(opened.error());
  return opened ? std::make_unique<Tokenizer>(std::move(*opened)) : nullptr;
}

class StarterTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ = open_named("EXO_STARTER_GGUF");
    ASSERT_NE(tokenizer_, nullptr);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

std::vector<std::string> golden_lines(const char* name) {
  const auto text =
      read_file(std::filesystem::path(EXO_SOURCE_DIR) / "tests/golden/tokens" / name, 10 << 20);
  std::vector<std::string> lines;
  for (const std::string_view line : split(text.value(), '\n')) {
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

// Byte-level BPE, and SentencePiece's with 262,144 tokens.
void gives_the_peers_ids_and_the_text_back(const Tokenizer& tokenizer, const char* golden) {
  const auto texts = golden_lines("corpus.jsonl"), ids = golden_lines(golden);
  ASSERT_GE(texts.size(), 2000U);
  ASSERT_EQ(texts.size(), ids.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = Json::parse(texts[i]).get<std::string>();
    const auto encoded = tokenizer.encode(text);
    ASSERT_TRUE(encoded) << texts[i];
    EXPECT_EQ(*encoded, Json::parse(ids[i]).get<std::vector<std::uint32_t>>()) << texts[i];
    EXPECT_EQ(tokenizer.decode(*encoded, /*skip_special=*/false), text);
    Detokenizer stream(tokenizer, /*keep_special=*/true);
    std::string joined;
    for (const std::uint32_t id : *encoded) joined += stream.push(id);
    EXPECT_EQ(joined + stream.finish(), text);
  }
}

TEST_F(StarterTokenizer, GivesThePeersIdsAndTheTextBack) {
  gives_the_peers_ids_and_the_text_back(*tokenizer_, "starter.jsonl");
}

TEST(SecondTokenizer, GivesThePeersIdsAndTheTextBack) {
  const auto tokenizer = open_named("EXO_SECOND_GGUF");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->size(), 262144U);
  EXPECT_EQ(tokenizer->decoder_kind(), DecoderKind::kSentencePiece);
  gives_the_peers_ids_and_the_text_back(*tokenizer, "second.jsonl");
}

TEST_F(StarterTokenizer, EveryTokenHasBytesAndPrintableAsciiHasTokens) {
  std::vector<bool> seen(256);
  for (std::uint32_t id = 0; id < tokenizer_->size(); ++id) {
    const std::string bytes = tokenizer_->bytes_of(id);
    EXPECT_FALSE(bytes.empty()) << id;
    if (bytes.size() == 1) seen[static_cast<unsigned char>(bytes[0])] = true;
  }
  // This vocabulary itself lacks a few control characters, 0x04 for one.
  for (std::size_t byte = ' '; byte <= '~'; ++byte) EXPECT_TRUE(seen[byte]) << byte;
  EXPECT_TRUE(tokenizer_->bytes_of(1U << 30).empty());
}

TEST_F(StarterTokenizer, AStreamNeverBreaksACharacter) {
  const auto ids = tokenizer_->encode("👩‍👩‍👧 模型");
  ASSERT_TRUE(ids);
  for (std::size_t cut = 0; cut < ids->size(); ++cut) {
    Detokenizer stream(*tokenizer_, /*keep_special=*/false);
    for (std::size_t i = 0; i < cut; ++i)
      EXPECT_EQ(stream.push((*ids)[i]).find("\xEF\xBF\xBD"), std::string::npos);
  }
  Detokenizer stream(*tokenizer_, /*keep_special=*/false);
  EXPECT_EQ(stream.push(*tokenizer_->id_of("<|im_end|>")), "");
}

TEST(Tokenizer, RefusesWhatIsNoDocument) {
  for (const char* text : {"", "{}", "[]", "nonsense", R"({"model": {"type": "BPE"}})",
                           R"({"model": {"type": "BPE", "vocab": 5, "merges": []}})"}) {
    EXPECT_EQ(Tokenizer::open(text).error().code, ErrorCode::kInvalidInput) << text;
  }
}

}  // namespace
}  // namespace exo::engine
