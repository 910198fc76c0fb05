#include "app/synthetic.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "engine/engine.h"
#include "engine/weight_loader.h"
#include "kernels/pack.h"
#include "models/checkpoint_builder.h"
#include "models/synthetic.h"

namespace exo::app {
namespace {

using models::TestDirectory;

Json llama_config() {
  return {{"model_type", "llama"},
          {"hidden_size", 256},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 64},
          {"intermediate_size", 512},
          {"vocab_size", 300},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"rope_scaling",
           {{"rope_type", "llama3"},
            {"factor", 32.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 64}}},
          {"max_position_embeddings", 4096},
          {"tie_word_embeddings", true}};
}

Json gemma_config() {
  Json config = llama_config();
  config.erase("rope_scaling");
  config["model_type"] = "gemma3_text";
  config["sliding_window"] = 16;
  config["sliding_window_pattern"] = 2;
  config["query_pre_attn_scalar"] = 64;
  config["rope_local_base_freq"] = 10000.0;
  return config;
}

std::vector<float> logits_of(const models::Checkpoint& checkpoint) {
  kernels::ThreadPool pool({.threads = 1});
  const auto model =
      engine::Model::load(checkpoint, pool, {.precision = kernels::Precision::kExact});
  if (!model) {
    ADD_FAILURE() << to_string(model.error());
    return {};
  }
  const auto sequence = (*model)->make_sequence();
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < 40; ++i) ids.push_back(i * 7);
  return (*model)->logits(*sequence, ids).value();
}

TEST(Synthetic, EveryFormatHasWeightsOfTheSameSize) {
  for (const char* name :
       {"f32",          "f16",         "bf16",        "affine-2-32", "affine-3-64",
        "affine-4-128", "affine-5-64", "affine-6-32", "affine-8-64", "f8",
        "mxfp4",        "mxfp8",       "nvfp4",       "q4_0",        "q4_1",
        "q5_0",         "q5_1",        "q8_0",        "q2_k",        "q3_k",
        "q4_k",         "q5_k",        "q6_k",        "iq4_nl",      "iq4_xs"}) {
    const auto checkpoint =
        models::make_synthetic(llama_config(), models::weight_format_from(name).value());
    const std::size_t rows = 64, cols = 512;
    kernels::ThreadPool pool({.threads = 1});
    const engine::WeightLoader::Progress silent;
    engine::WeightLoader loader(*checkpoint, pool, silent);
    const auto matrix = loader.matrix({.name = "model.x", .rows = rows, .cols = cols});
    ASSERT_TRUE(matrix) << name << ": " << to_string(matrix.error());
    double sum = 0, squares = 0;
    std::vector<float> row(cols);
    for (std::size_t r = 0; r < rows; ++r) {
      kernels::unpack_row(*matrix, 0, r, row.data());
      for (const float w : row) {
        sum += w;
        squares += w * w;
      }
    }
    const double count = rows * cols, mean = sum / count;
    const double deviation = std::sqrt(squares / count - mean * mean);
    EXPECT_NEAR(mean, 0, 0.01) << name;
    EXPECT_GT(deviation, 0.01) << name;
    EXPECT_LT(deviation, 0.04) << name;
  }
}

TEST(Synthetic, AWrittenModelComputesTheSame) {
  for (const Json& config : {llama_config(), gemma_config()}) {
    for (const char* quantization : {"affine-4-64", "mxfp4", "f8", "f32", "q8_0", "q5_k"}) {
      const TestDirectory directory;
      models::write_bytes(directory.path() / "shape.json", dump_json(config));
      const auto made = make_synthetic(
          {.config = directory.path() / "shape.json", .layers = 2, .quantization = quantization});
      ASSERT_TRUE(made) << to_string(made.error());
      const auto written = write_synthetic(**made, directory.path() / "model");
      ASSERT_TRUE(written) << quantization << ": " << to_string(written.error());
      const auto opened = models::open_checkpoint(directory.path() / "model");
      ASSERT_TRUE(opened) << quantization << ": " << to_string(opened.error());
      const std::vector<float> want = logits_of(**made), got = logits_of(**opened);
      ASSERT_EQ(want.size(), got.size());
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        largest = std::max<double>(largest, std::abs(want[i]));
        difference = std::max<double>(difference, std::abs(want[i] - got[i]));
      }
      // Llama 3's frequencies pass through f32 divisors in GGUF.
      EXPECT_LT(difference, 1e-5 * largest) << config["model_type"] << ' ' << quantization;
    }
  }
}

TEST(Synthetic, SaysWhatIsWrongWithTheConfiguration) {
  const TestDirectory directory;
  const auto path = directory.path() / "config.json";
  EXPECT_EQ(make_synthetic({.config = path}).error().code, ErrorCode::kNotFound);
  models::write_bytes(path, "[1, 2]");
  EXPECT_EQ(make_synthetic({.config = path}).error().code, ErrorCode::kInvalidInput);
  models::write_bytes(path, "{}");
  EXPECT_EQ(make_synthetic({.config = path, .quantization = "q7"}).error().subject, "q7");
}

}  // namespace
}  // namespace exo::app
