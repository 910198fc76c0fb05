#include "models/gguf.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include <nlohmann/json.hpp>

#include "models/checkpoint.h"
#include "models/checkpoint_builder.h"

namespace exo::models {
namespace {

class Gguf : public testing::Test {
 protected:
  Result<GgufFile> open(const std::string& bytes) {
    write_bytes(file_, bytes);
    return GgufFile::open(file_);
  }
  Result<std::unique_ptr<Checkpoint>> open_model(const std::string& bytes) {
    write_bytes(file_, bytes);
    return open_checkpoint(file_);
  }
  TestDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "model.gguf";
};

// The 160 bytes of gguf.md 1.6.
std::string smallest() {
  return GgufBuilder()
      .string("general.architecture", "llama")
      .tensor("w", {3, 2}, 0, raw(0.F) + raw(1.F) + raw(2.F) + raw(3.F) + raw(4.F) + raw(5.F))
      .bytes();
}

TEST_F(Gguf, ReadsTheSmallestExample) {
  EXPECT_EQ(smallest().size(), 160U);
  const auto file = open(smallest());
  ASSERT_TRUE(file) << file.error().message;
  const GgufTensor& w = file->tensors.find("w")->second;
  EXPECT_EQ(w.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(w.data.size(), 24U);
}

TEST_F(Gguf, EveryTruncationIsAnError) {
  const std::string whole = smallest();
  for (std::size_t size = 0; size < 152; ++size) EXPECT_FALSE(open(whole.substr(0, size))) << size;
  EXPECT_TRUE(open(whole.substr(0, 152)));  // the padding behind the last tensor may be missing
}

TEST_F(Gguf, MutationsNeverCrash) {
  const std::string whole = GgufBuilder().tiny_llama().bytes();
  const std::size_t header = whole.size() - 8 * 32 * 32 * 4;
  std::mt19937 random(1);
  std::size_t survived = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % std::min<std::size_t>(header, bytes.size())] = static_cast<char>(random());
    const auto model = open_model(bytes);
    if (!model) continue;
    ++survived;
    (void)(*model)->tokenizer();
    (void)(*model)->tokenizer_json();
    (void)(*model)->matrix("model.layers.0.self_attn.q_proj", 32, 32);
    (void)(*model)->vector("model.norm.weight", 32);
  }
  EXPECT_LT(survived, 3000U);
}

TEST_F(Gguf, NamesWhatIsWrong) {
  const auto header = [](std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
    return "GGUF" + raw(version) + raw(tensors) + raw(pairs);
  };
  const auto record = [](const std::string& name, std::vector<std::uint64_t> dims,
                         std::uint32_t type, std::uint64_t offset) {
    std::string text = GgufBuilder::text(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) text += raw(d);
    return text + raw(type) + raw(offset);
  };
  const std::string data(256, '\0');
  struct Case {
    std::string bytes;
    const char* part;
  };
  for (const Case& c : {
           Case{"GGML" + data, "not a GGUF file"},
           Case{header(0, 0, 1) + data, "version 1"},
           Case{header(0, 0, 0x03000000) + data, "big-endian"},
           Case{header(std::uint64_t{1} << 63, 0) + data, "more tensors"},
           Case{header(0, std::uint64_t{1} << 63) + data, "more tensors or keys"},
           Case{header(0, 1) + raw(~std::uint64_t{0}) + data, "longer than the file"},
           Case{header(0, 1) + GgufBuilder::text("k") + raw(std::uint32_t{9}) +
                    raw(std::uint32_t{10}) + raw(std::uint64_t{1} << 61) + data,
                "array"},
           Case{header(0, 1) + GgufBuilder::text("k") + raw(std::uint32_t{9}) +
                    raw(std::uint32_t{9}) + raw(std::uint64_t{1}) + data,
                "array"},
           Case{header(0, 1) + GgufBuilder::text("") + raw(std::uint32_t{4}) + raw(1) + data,
                "key"},
           Case{header(1, 0) + record("w", {std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 0) +
                    data,
                "shape"},
           Case{header(1, 0) + record("w", {0}, 0, 0) + data, "shape"},
           Case{header(1, 0) + record("w", {4}, 4, 0) + data, "type 4"},
           Case{header(1, 0) + record("w", {4}, 255, 0) + data, "type 255"},
           Case{header(1, 0) + record("w", {33}, 2, 0) + data, "multiple of 32"},
           Case{header(1, 0) + record("w", {4}, 0, 1) + data, "aligned"},
           Case{header(1, 0) + record("w", {4}, 0, ~std::uint64_t{31}) + data,
                "incomplete download"},
           Case{header(2, 0) + record("w", {4}, 0, 0) + record("w", {4}, 0, 32) + data, "twice"},
           Case{header(2, 0) + record("v", {16}, 0, 0) + record("w", {4}, 0, 32) + data, "overlap"},
       }) {
    const auto file = open(c.bytes);
    ASSERT_FALSE(file) << c.part;
    EXPECT_NE(to_string(file.error()).find(c.part), std::string::npos) << to_string(file.error());
  }
  EXPECT_FALSE(
      open(GgufBuilder().u32("general.alignment", 3).tensor("w", {1}, 0, floats(1)).bytes()));
  EXPECT_FALSE(open(GgufBuilder().u32("a", 1).u32("a", 2).bytes()));
}

TEST_F(Gguf, AnswersInHuggingFaceNamesAndRows) {
  const auto model = open_model(GgufBuilder().tiny_llama().bytes());
  ASSERT_TRUE(model) << to_string(model.error());
  const Json& config = (*model)->config();
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["head_dim"], 16);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ((*model)->eos_token_ids(), (std::vector<std::uint32_t>{0, 1}));
  const auto q = (*model)->matrix("model.layers.0.self_attn.q_proj", 32, 32);
  ASSERT_TRUE(q);
  EXPECT_EQ(q->row_map[1], 2U);        // HF row 1 of a head of 16: s = 0, i = 1
  EXPECT_EQ(q->row_map[8], 1U);        // s = 1, i = 0
  EXPECT_EQ(q->row_map[16 + 9], 19U);  // second head: s = 1, i = 1
  EXPECT_TRUE((*model)->matrix("model.layers.0.mlp.down_proj", 32, 32)->row_map.empty());
  EXPECT_EQ((*model)->matrix("model.layers.0.mlp.down_proj", 32, 31).error().subject,
            "blk.0.ffn_down.weight");
  EXPECT_EQ((*model)->matrix("model.layers.1.mlp.down_proj", 32, 32).error().code,
            ErrorCode::kNotFound);
  EXPECT_FALSE((*model)->has("lm_head.weight"));
}

TEST_F(Gguf, RebuildsTheTokenizer) {
  const auto model = open_model(GgufBuilder().tiny_llama().bytes());
  ASSERT_TRUE(model);
  const auto files = (*model)->tokenizer();
  ASSERT_TRUE(files) << to_string(files.error());
  const Json document = Json::parse((*model)->tokenizer_json().value());
  EXPECT_EQ(document["model"]["vocab"]["ab"], 4);
  EXPECT_EQ(document["model"]["merges"], Json::parse(R"([["a", "b"]])"));
  EXPECT_EQ(document["added_tokens"].size(), 2U);
  EXPECT_EQ(files->special_tokens.at("bos_token"), "<|endoftext|>");
  EXPECT_FALSE(files->add_bos);
}

// A vocabulary of pieces with scores, as SentencePiece has it.
GgufBuilder& spm(GgufBuilder& builder, const std::vector<float>& scores) {
  return builder.string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "<0x41>", "\xE2\x96\x81", "a", "b", "ab",
                                         "\xE2\x96\x81"
                                         "a",
                                         "  ", "<b>", "ba"})
      .integers("tokenizer.ggml.token_type", {2, 3, 6, 1, 1, 1, 1, 1, 4, 4, 5})
      .f32s("tokenizer.ggml.scores", scores);
}

TEST_F(Gguf, RebuildsSentencePieceFromScores) {
  GgufBuilder builder;
  const auto model = open_model(
      spm(builder, {0, 0, 0, -9, -8, -7, -2, -1, -1000, -1000, 0}).tiny_llama("").bytes());
  ASSERT_TRUE(model) << to_string(model.error());
  const auto text = (*model)->tokenizer_json();
  ASSERT_TRUE(text) << to_string(text.error());
  const Json document = Json::parse(*text);
  const Json& bpe = document["model"];
  // The run of spaces comes first, whatever its score; then the pieces by theirs.
  EXPECT_EQ(bpe["merges"], Json::parse(R"([["▁", "▁"], ["▁", "a"], ["a", "b"]])"));
  EXPECT_EQ(bpe["vocab"]["▁▁"], 8);
  EXPECT_FALSE(bpe["vocab"].contains("ba"));  // an unused token is no text
  EXPECT_EQ(bpe["unk_token"], "<unk>");
  EXPECT_EQ(bpe["byte_fallback"], true);
  EXPECT_EQ(document["added_tokens"].size(), 4U);
  EXPECT_EQ(document["normalizer"]["type"], "Sequence");  // a space in front is the default
  EXPECT_EQ(document["decoder"]["decoders"].size(), 4U);
  EXPECT_TRUE((*model)->has_token("<b>"));
  EXPECT_FALSE((*model)->has_token("<c>"));
}

TEST_F(Gguf, EqualScoresMergeInTheOrderOfIds) {
  GgufBuilder builder;
  const auto model = open_model(spm(builder, std::vector<float>(11, -1))
                                    .boolean("tokenizer.ggml.add_space_prefix", false)
                                    .tiny_llama("")
                                    .bytes());
  ASSERT_TRUE(model) << to_string(model.error());
  const Json document = Json::parse((*model)->tokenizer_json().value());
  EXPECT_EQ(document["model"]["merges"], Json::parse(R"([["▁", "▁"], ["a", "b"], ["▁", "a"]])"));
  EXPECT_EQ(document["normalizer"]["type"], "Replace");
  EXPECT_EQ(document["decoder"]["decoders"].size(), 3U);
}

TEST_F(Gguf, RefusesAWrongSentencePieceVocabularyByItsKey) {
  const auto subject_of = [&](GgufBuilder& builder) {
    return open_model(builder.tiny_llama("").bytes()).value()->tokenizer_json().error().subject;
  };
  GgufBuilder few, no_number, no_byte, unknown;
  EXPECT_EQ(subject_of(spm(few, {0, 0, 0})), "tokenizer.ggml.scores");
  EXPECT_EQ(subject_of(spm(no_number, std::vector<float>(11, std::nanf("")))),
            "tokenizer.ggml.scores");
  EXPECT_EQ(subject_of(no_byte.string("tokenizer.ggml.model", "llama")
                           .strings("tokenizer.ggml.tokens", {"<0xZZ>"})
                           .integers("tokenizer.ggml.token_type", {6})
                           .f32s("tokenizer.ggml.scores", {0})),
            "tokenizer.ggml.tokens");
  EXPECT_EQ(subject_of(unknown.string("tokenizer.ggml.model", "t5")), "tokenizer.ggml.model");
}

TEST_F(Gguf, RefusesWhatItCannotRunByName) {
  EXPECT_NE(open_model(GgufBuilder().string("general.architecture", "rwkv7").bytes())
                .error()
                .message.find("rwkv7"),
            std::string::npos);
  EXPECT_NE(open_model(GgufBuilder()
                           .string("general.type", "adapter")
                           .string("general.architecture", "llama")
                           .bytes())
                .error()
                .message.find("adapter"),
            std::string::npos);
  EXPECT_EQ(
      open_model(GgufBuilder().string("general.architecture", "llama").bytes()).error().subject,
      "llama.block_count");
  GgufBuilder quantised;
  quantised.tiny_llama().tensor("output.weight", {256, 6}, 16, std::string(6 * 66, '\0'));
  const auto model = open_model(quantised.bytes());
  ASSERT_TRUE(model);
  EXPECT_NE((*model)->matrix("lm_head", 6, 256).error().message.find("IQ2_XXS"), std::string::npos);
}

TEST_F(Gguf, SplitFilesMustBeWhole) {
  const auto shard = [](std::uint32_t index, std::uint32_t count) {
    GgufBuilder builder;
    builder.u32("split.no", index).u32("split.count", count);
    if (index == 0) return builder.tiny_llama().bytes();
    return builder.tensor("extra." + std::to_string(index), {4}, 0, floats(4)).bytes();
  };
  const auto name = [&](int index) {
    return directory_.path() / ("m-0000" + std::to_string(index) + "-of-00003.gguf");
  };
  for (std::uint32_t i = 0; i < 3; ++i) write_bytes(name(static_cast<int>(i) + 1), shard(i, 3));
  EXPECT_TRUE(open_checkpoint(name(1)));
  EXPECT_TRUE(open_checkpoint(name(3)));
  EXPECT_TRUE(open_checkpoint(directory_.path()));
  write_bytes(name(2), shard(2, 3));
  EXPECT_FALSE(open_checkpoint(name(1)));  // says that it is another
  std::filesystem::remove(name(2));
  EXPECT_EQ(open_checkpoint(name(1)).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace exo::models
