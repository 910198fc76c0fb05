#include "models/safetensors.h"

#include <gtest/gtest.h>
#include <random>

#include "models/checkpoint_builder.h"

namespace exo::models {
namespace {

constexpr const char* kTwo =
    R"({"__metadata__": {"format": "mlx"}, "a.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},)"
    R"( "b.weight": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]}})";

class Safetensors : public testing::Test {
 protected:
  Result<SafetensorsFile> open(const std::string& bytes) {
    write_bytes(directory_.path() / "model.safetensors", bytes);
    return SafetensorsFile::open(directory_.path() / "model.safetensors");
  }
  Result<std::unique_ptr<Checkpoint>> open_model(const std::string& config) {
    write_bytes(directory_.path() / "config.json", config);
    return open_checkpoint(directory_.path());
  }
  TestDirectory directory_;
};

TEST_F(Safetensors, ReadsNamesShapesAndData) {
  const auto file = open(safetensors_bytes(kTwo, std::string(24, 'x')));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors.size(), 2U);
  EXPECT_EQ(file->tensors.find("b.weight")->second.data.size(), 8U);
}

TEST_F(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = safetensors_bytes(kTwo, std::string(24, 'x'));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(open(whole.substr(0, size))) << size;
}

TEST_F(Safetensors, RefusesImpossibleHeaders) {
  const std::string data(64, 'x');
  for (
      const char* header : {
          "[]",
          "nonsense",
          "{",
          R"({"a": 1})",
          R"({"a": {"dtype": "F32", "shape": [2]}})",
          R"({"a": {"dtype": "F33", "shape": [2], "data_offsets": [0, 8]}})",
          R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})",
          R"({"a": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}})",
          R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})",
          R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 12]}})",
          R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}})",
          R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [60, 68]}})",
          R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
      }) {
    const auto file = open(safetensors_bytes(header, data));
    ASSERT_FALSE(file) << header;
    EXPECT_EQ(file.error().code, ErrorCode::kInvalidInput) << header;
  }
  EXPECT_FALSE(open(raw(std::uint64_t{1} << 62) + data));
  EXPECT_FALSE(open(raw(std::uint64_t{0}) + data));
  EXPECT_FALSE(open(safetensors_bytes(std::string(100000, '['), data)));
}

TEST_F(Safetensors, MutationsNeverCrash) {
  const std::string whole = safetensors_bytes(kTwo, std::string(24, 'x'));
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = whole;
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)open(bytes);
  }
}

TEST_F(Safetensors, QuantisationFollowsTheBlock) {
  const std::string header =
      R"({"q.weight": {"dtype": "U32", "shape": [2, 8], "data_offsets": [0, 64]}, "q.scales": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [64, 68]},)"
      R"( "q.biases": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [68, 72]}, "d.weight": {"dtype": "F16", "shape": [2, 3], "data_offsets": [72, 84]}})";
  ASSERT_TRUE(open(safetensors_bytes(header, std::string(84, '\1'))));
  const auto model =
      open_model(R"({"model_type": "llama", "quantization": {"group_size": 64, "bits": 4}})");
  ASSERT_TRUE(model) << to_string(model.error());
  const auto q = (*model)->matrix("q", 2, 64);
  ASSERT_TRUE(q) << to_string(q.error());
  EXPECT_EQ(q->format, (WeightFormat{.kind = WeightFormat::Kind::kMlxAffine,
                                     .type = DType::kBf16,
                                     .bits = 4,
                                     .group_size = 64}));
  EXPECT_EQ((*model)->matrix("d", 2, 3)->format.type, DType::kF16);
  EXPECT_EQ((*model)->matrix("q", 2, 32).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ((*model)->matrix("none", 2, 2).error().subject, "none.weight");

  const auto overridden = open_model(
      R"({"model_type": "llama", "quantization": {"group_size": 32, "bits": 8, "model.q": {"bits": 2}, "q": {"group_size": 64, "bits": 4}}})");
  ASSERT_TRUE(overridden);
  EXPECT_TRUE((*overridden)->matrix("q", 2, 64));
}

TEST_F(Safetensors, RefusesModelsItMustNotOrCannotOpen) {
  ASSERT_TRUE(open(safetensors_bytes(kTwo, std::string(24, 'x'))));
  EXPECT_EQ(open_model(R"({"model_type": "llama", "model_file": "evil.py"})").error().subject,
            "model_file");
  EXPECT_NE(open_model(R"({"model_type": "llama", "quantization": {"mode": "mxfp5"}})")
                .error()
                .message.find("mxfp5"),
            std::string::npos);
  EXPECT_NE(open_model(R"({"model_type": "llama", "quantization_config": {"quant_method": "awq"}})")
                .error()
                .message.find("awq"),
            std::string::npos);
  EXPECT_FALSE(open_model(R"({"model_type": "llama", "quantization": {"bits": 7}})"));
  EXPECT_FALSE(open_model("[]"));
  EXPECT_FALSE(open_model("{}"));
  EXPECT_FALSE(open_model(std::string(5000, '[')));
  write_bytes(directory_.path() / "model.safetensors.index.json",
              R"({"weight_map": {"x": "model-00002-of-00002.safetensors"}})");
  EXPECT_NE(open_model(R"({"model_type": "llama"})").error().message.find("incomplete"),
            std::string::npos);
}

TEST_F(Safetensors, EndTokensAreTheUnionOfBothFiles) {
  ASSERT_TRUE(open(safetensors_bytes(kTwo, std::string(24, 'x'))));
  write_bytes(directory_.path() / "generation_config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_EQ((*open_model(R"({"model_type": "llama", "eos_token_id": 2})"))->eos_token_ids(),
            (std::vector<std::uint32_t>{2, 7, 9}));
  write_bytes(directory_.path() / "generation_config.json", "not JSON");
  EXPECT_EQ((*open_model(R"({"model_type": "llama", "eos_token_id": 2})"))->eos_token_ids(),
            (std::vector<std::uint32_t>{2}));
}

TEST_F(Safetensors, NumbersThatAreNoTokenIdsAreIgnored) {
  write_bytes(directory_.path() / "model.safetensors", safetensors_bytes("{}", ""));
  write_bytes(directory_.path() / "tokenizer.json",
              R"({"added_tokens": [{"id": 4294967297, "content": "</s>"}]})");
  write_bytes(directory_.path() / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  const auto model = open_model(R"({"model_type": "llama", "bos_token_id": 4294967296})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE((*model)->eos_token_ids().empty());  // not 1
  const auto files = (*model)->tokenizer();
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_FALSE(files->bos_token_id);  // not 0
}

TEST(OpenCheckpoint, SaysWhatIsNoModel) {
  const TestDirectory directory;
  EXPECT_EQ(open_checkpoint(directory.path() / "none").error().code, ErrorCode::kNotFound);
  EXPECT_NE(open_checkpoint(directory.path()).error().message.find("neither"), std::string::npos);
  write_bytes(directory.path() / "notes.txt", "hello");
  EXPECT_EQ(open_checkpoint(directory.path() / "notes.txt").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace exo::models
