#include "engine/decoder_spec.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace exo::engine {
namespace {

Json llama_config() {
  return Json::parse(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
    "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5, "vocab_size": 100})");
}

const AttentionSpec& attention(const DecoderSpec& spec, std::size_t layer) {
  return std::get<AttentionSpec>(spec.layers.at(layer).mixer);
}

TEST(Llama, FillsInItsDefaults) {
  const auto spec = decoder_spec(llama_config());
  ASSERT_TRUE(spec) << to_string(spec.error());
  EXPECT_FALSE(spec->head);  // tied when the key is absent
  EXPECT_EQ(spec->context_length, 0U);
  ASSERT_EQ(spec->layers.size(), 2U);
  const AttentionSpec& second = attention(*spec, 1);
  EXPECT_EQ(second.head_dim, 16U);
  EXPECT_FLOAT_EQ(second.scale, 0.25F);
  EXPECT_EQ(second.k.name, "model.layers.1.self_attn.k_proj");
  EXPECT_EQ(second.k.rows, 32U);
  EXPECT_FALSE(second.o.bias);
  EXPECT_EQ(spec->ropes, (std::vector<RopeSpec>{{.rotated = 16, .base = 10000}}));
}

TEST(Llama, TakesMistralsWindowOnlyFromLayerTypes) {
  Json config = llama_config();
  config["model_type"] = "mistral";
  config["sliding_window"] = 7;
  EXPECT_EQ(attention(*decoder_spec(config), 0).window, 0U);
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const auto spec = decoder_spec(config);
  EXPECT_EQ(attention(*spec, 0).window, 7U);
  EXPECT_EQ(attention(*spec, 1).window, 0U);
}

TEST(Llama, PutsBiasesWhereTheKeysSay) {
  Json config = llama_config();
  config["attention_bias"] = true;
  EXPECT_TRUE(attention(*decoder_spec(config), 0).o.bias);
  EXPECT_FALSE(std::get<GatedSpec>(decoder_spec(config)->layers[0].feed_forward).up.bias);
  config["mlp_bias"] = true;
  EXPECT_TRUE(std::get<GatedSpec>(decoder_spec(config)->layers[0].feed_forward).down.bias);
}

// Every hostile value gives one error that names its key.
TEST(Llama, NamesTheKeyThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"hidden_size": null})", "hidden_size"},
      {R"({"hidden_size": -1})", "hidden_size"},
      {R"({"hidden_size": 1e300})", "hidden_size"},
      {R"({"hidden_size": "64"})", "hidden_size"},
      {R"({"hidden_size": 64.5})", "hidden_size"},
      {R"({"num_hidden_layers": 0})", "num_hidden_layers"},
      {R"({"num_hidden_layers": 4294967296})", "num_hidden_layers"},
      {R"({"intermediate_size": 0})", "intermediate_size"},
      {R"({"num_attention_heads": 0})", "num_attention_heads"},
      {R"({"num_attention_heads": 3, "num_key_value_heads": 1})", "num_attention_heads"},
      {R"({"num_key_value_heads": 3})", "num_key_value_heads"},
      {R"({"head_dim": 15})", "head_dim"},
      {R"({"head_dim": 512})", "head_dim"},
      {R"({"num_attention_heads": 64, "num_key_value_heads": 64})", "head_dim"},
      {R"({"partial_rotary_factor": 2})", "partial_rotary_factor"},
      {R"({"partial_rotary_factor": 0.01})", "partial_rotary_factor"},
      {R"({"vocab_size": {}})", "vocab_size"},
      {R"({"rms_norm_eps": "x"})", "rms_norm_eps"},
      {R"({"max_position_embeddings": -5})", "max_position_embeddings"},
      {R"({"attention_bias": 1})", "attention_bias"},
      {R"({"tie_word_embeddings": "yes"})", "tie_word_embeddings"},
      {R"({"rope_theta": 0})", "rope_theta"},
      {R"({"rope_traditional": 0})", "rope_traditional"},
      {R"({"rope_scaling": []})", "rope_scaling"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2}})", "rope_scaling"},
      {R"({"rope_scaling": {"type": 7}})", "rope_scaling.type"},
      {R"({"rope_scaling": {"type": "linear"}})", "rope_scaling.factor"},
      {R"({"rope_scaling": {"type": "linear", "factor": 0}})", "rope_scaling.factor"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": 1}})",
       "rope_scaling.high_freq_factor"},
      {R"({"rope_scaling": {"rope_type": "frequency_divisors", "divisors": [1]}})",
       "rope_scaling.divisors"},
      {R"({"rope_scaling": {"rope_type": "frequency_divisors",
           "divisors": [1, 1, 1, 1, 1, 1, 1, 0]}})",
       "rope_scaling.divisors"},
      {R"({"layer_types": "full_attention"})", "layer_types"},
      {R"({"layer_types": ["full_attention"]})", "layer_types"},
      {R"({"layer_types": ["full_attention", "linear_attention"]})", "layer_types"},
      {R"({"layer_types": ["full_attention", "sliding_attention"]})", "sliding_window"},
      {R"({"hidden_act": "gelu"})", "hidden_act"},
      {R"({"model_type": "mamba"})", "model_type"},
      {R"({"model_type": null})", "model_type"},
      {R"({"model_file": "code.py"})", "model_file"},
  };
  for (const auto& [patch, key] : cases) {
    Json config = llama_config();
    config.merge_patch(Json::parse(patch));  // null removes the key
    const auto spec = decoder_spec(config);
    ASSERT_FALSE(spec) << patch;
    EXPECT_EQ(spec.error().subject, key) << patch << ": " << spec.error().message;
  }
  EXPECT_FALSE(decoder_spec(Json::parse("[]")));
}

TEST(Llama, NamesWhatItDoesNotSupport) {
  Json config = llama_config();
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
  const auto spec = decoder_spec(config);
  EXPECT_EQ(spec.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(spec.error().message.find("yarn"), std::string::npos);
  config = llama_config();
  config["model_type"] = "mamba";
  EXPECT_NE(decoder_spec(config).error().message.find("mamba"), std::string::npos);
}

// A GGUF file carries Llama 3 scaling as divisors c_i of the plain frequencies (gguf.md 3.2).
TEST(Frequencies, DivisorsOfAGgufEqualLlama3Scaling) {
  const RopeSpec scaled = {
      .rotated = 64, .base = 500000, .scaling = Llama3Rope{.factor = 32, .original_context = 8192}};
  const auto want = frequencies(scaled);
  DivisorRope divisors;  // as the converter computes them
  for (std::size_t i = 0; i < 32; ++i) {
    const double t = std::pow(500000.0, 2.0 * static_cast<double>(i) / 64),
                 wavelength = 2 * M_PI * t;
    const double smooth = (8192 / wavelength - 1) / (4 - 1);
    const double divisor = wavelength < 8192.0 / 4   ? 1
                           : wavelength > 8192.0 / 1 ? 32
                                                     : 1 / ((1 - smooth) / 32 + smooth);
    divisors.divisors.push_back(static_cast<float>(divisor));
  }
  const auto got = frequencies({.rotated = 64, .base = 500000, .scaling = divisors});
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6 * want[i]) << i;
  EXPECT_NEAR(want[14], 3.2114460e-3, 1e-8);  // models.md 2.3
  EXPECT_NEAR(want[31], 9.4183067e-8, 1e-13);
}

TEST(Frequencies, LinearScalingStretchesPositions) {
  const auto plain = frequencies({.rotated = 8, .base = 100});
  const auto half = frequencies({.rotated = 8, .base = 100, .scaling = LinearRope{.factor = 2}});
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(half[i], plain[i] / 2);
}

}  // namespace
}  // namespace exo::engine
