#include "models/synthetic.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/half.h"
#include "models/checkpoint_builder.h"
#include "models/checkpoint_writer.h"

namespace exo::models {
namespace {

const Json kLlama = {{"model_type", "llama"},          {"hidden_size", 256},
                     {"num_hidden_layers", 2},         {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},       {"head_dim", 64},
                     {"intermediate_size", 512},       {"vocab_size", 512},
                     {"rms_norm_eps", 1e-5},           {"rope_theta", 10000.0},
                     {"max_position_embeddings", 256}, {"tie_word_embeddings", true}};

TEST(Synthetic, NamesItsFormats) {
  EXPECT_EQ(weight_format_from("affine-3-128").value(),
            (WeightFormat{.kind = WeightFormat::Kind::kMlxAffine,
                          .type = DType::kBf16,
                          .bits = 3,
                          .group_size = 128}));
  EXPECT_EQ(weight_format_from("Q4_K").value().kind, WeightFormat::Kind::kQ4K);
  EXPECT_EQ(weight_format_from("nvfp4").value().kind, WeightFormat::Kind::kMlxNvfp4);
  const auto unknown = weight_format_from("q9_9");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(unknown.error().message.contains("iq4_xs")) << unknown.error().message;
}

TEST(Synthetic, OnlyTheHeadMayBeMissing) {
  const WeightFormat format = weight_format_from("q8_0").value();
  Json untied = kLlama;
  untied["tie_word_embeddings"] = false;
  EXPECT_FALSE(make_synthetic(kLlama, format)->has("lm_head.weight"));
  EXPECT_TRUE(make_synthetic(untied, format)->has("lm_head.weight"));
  EXPECT_TRUE(make_synthetic(kLlama, format)->has("model.norm.weight"));
}

TEST(Synthetic, RefusesColumnsThatTheFormatCannotHold) {
  const auto matrix =
      make_synthetic(kLlama, weight_format_from("q4_k").value())->matrix("model.x", 16, 96);
  ASSERT_FALSE(matrix);
  EXPECT_EQ(matrix.error().code, ErrorCode::kUnsupported);
}

TEST(Synthetic, WrittenFilesHoldTheSameBytes) {
  for (const char* name : {"affine-4-64", "mxfp8", "nvfp4", "f8", "bf16", "q6_k"}) {
    const auto made = make_synthetic(kLlama, weight_format_from(name).value());
    const MatrixView matrix = made->matrix("model.layers.0.mlp.up_proj", 512, 256).value();
    const TestDirectory directory;
    const CheckpointContent content{
        .config = kLlama,
        .matrices = {matrix},
        .vectors = {{"model.norm.weight", std::vector<float>(256, 0.5F)}}};
    const auto written = write_checkpoint(directory.path() / "model", content);
    ASSERT_TRUE(written) << name << ": " << to_string(written.error());
    const auto opened = open_checkpoint(directory.path() / "model");
    ASSERT_TRUE(opened) << name << ": " << to_string(opened.error());
    const auto back = (*opened)->matrix(matrix.name, 512, 256);
    ASSERT_TRUE(back) << name << ": " << to_string(back.error());
    EXPECT_EQ(back->format, matrix.format) << name;
    EXPECT_EQ(as_text(back->codes), as_text(matrix.codes)) << name;
    EXPECT_EQ(as_text(back->scales), as_text(matrix.scales)) << name;
    EXPECT_EQ(as_text(back->biases), as_text(matrix.biases)) << name;
    EXPECT_EQ((*opened)->vector("model.norm.weight", 256).value(), content.vectors[0].values);

    const auto again = write_checkpoint(directory.path() / "model", content);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  }
}

TEST(Synthetic, ArchitecturesWithoutAGgufFormAreNamed) {
  Json config = kLlama;
  config["model_type"] = "unheard_of";
  const auto made = make_synthetic(config, weight_format_from("q4_0").value());
  const TestDirectory directory;
  const auto written = write_checkpoint(
      directory.path(),
      {.config = config, .matrices = {made->matrix("model.norm", 32, 32).value()}});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace exo::models
