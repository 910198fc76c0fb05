// What a model refuses, and how its sequences behave, on a checkpoint that lives in memory.
#include "engine/model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace exo::engine {
namespace {

using models::DType;
using models::MatrixView;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct MemoryTensor {
  std::size_t rows = 0, cols = 0;  // rows 0: a vector
  std::vector<float> values = {};
  std::vector<float> scales = {};  // not empty: 8-bit codes in groups of 32, biases as scales
};

// A tiny llama whose tensors a test can spoil.
class MemoryCheckpoint final : public models::Checkpoint {
 public:
  MemoryCheckpoint()
      : config_(Json::parse(R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
          "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
          "rms_norm_eps": 1e-5, "vocab_size": 40, "max_position_embeddings": 24})")) {
    put("model.embed_tokens", 40, 32);
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      put(layer + "self_attn.q_proj", 32, 32);
      put(layer + "self_attn.k_proj", 16, 32);
      put(layer + "self_attn.v_proj", 16, 32);
      put(layer + "self_attn.o_proj", 32, 32);
      put(layer + "mlp.gate_proj", 48, 32);
      put(layer + "mlp.up_proj", 48, 32);
      put(layer + "mlp.down_proj", 32, 48);
      put(layer + "input_layernorm.weight", 0, 32);
      put(layer + "post_attention_layernorm.weight", 0, 32);
    }
    put("model.norm.weight", 0, 32);
  }

  Json& config() { return config_; }
  MemoryTensor& at(const std::string& name) { return tensors_.at(name); }
  void erase(const std::string& name) { tensors_.erase(name); }

  const Json& config() const override { return config_; }
  const std::vector<std::uint32_t>& eos_token_ids() const override { return eos_; }
  bool has(std::string_view tensor) const override {
    return tensors_.contains(std::string(tensor));
  }
  Result<MatrixView> matrix(std::string_view name, std::size_t rows,
                            std::size_t cols) const override {
    EXO_TRY(const MemoryTensor* tensor, find(name, rows, cols));
    MatrixView view{.name = std::string(name),
                    .format = {.kind = models::WeightFormat::Kind::kDense, .type = DType::kF32},
                    .rows = rows,
                    .cols = cols,
                    .codes = std::as_bytes(std::span(tensor->values)),
                    .scales = {},
                    .biases = {},
                    .row_map = {}};
    if (!tensor->scales.empty()) {
      view.format = {.kind = models::WeightFormat::Kind::kMlxAffine,
                     .type = DType::kF32,
                     .bits = 8,
                     .group_size = 32};
      view.codes = view.codes.first(rows * cols);
      view.scales = view.biases = std::as_bytes(std::span(tensor->scales));
    }
    return view;
  }
  Result<std::vector<float>> vector(std::string_view name, std::size_t size) const override {
    EXO_TRY(const MemoryTensor* tensor, find(name, 0, size));
    return tensor->values;
  }
  Result<models::TokenizerFiles> tokenizer() const override { return models::TokenizerFiles{}; }
  Result<std::string> tokenizer_json() const override { return std::string(); }
  bool has_token(std::string_view) const override { return false; }
  std::vector<models::TensorInfo> tensors() const override { return {}; }
  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : tensors_) bytes += tensor.values.size() * sizeof(float);
    return bytes;
  }
  void drop(std::span<const std::byte>) const override {}

 private:
  void put(const std::string& name, std::size_t rows, std::size_t cols) {
    MemoryTensor tensor{.rows = rows, .cols = cols};
    for (std::size_t i = 0; i < std::max<std::size_t>(rows, 1) * cols; ++i)
      tensor.values.push_back(rows == 0 ? 1.0F : std::sin(static_cast<float>(seed_++) * 1.7F) / 4);
    tensors_[name] = std::move(tensor);
  }
  Result<const MemoryTensor*> find(std::string_view name, std::size_t rows,
                                   std::size_t cols) const {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end())
      return fail(ErrorCode::kNotFound, "a tensor is missing", std::string(name));
    if (found->second.rows != rows || found->second.cols != cols)
      return fail(ErrorCode::kInvalidInput, "a tensor has the wrong shape", std::string(name));
    return &found->second;
  }

  Json config_;
  std::vector<std::uint32_t> eos_;
  std::map<std::string, MemoryTensor> tensors_;
  int seed_ = 0;
};

class ModelTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Model>> load(const LoadOptions& options = {
                                          .precision = kernels::Precision::kExact}) {
    return Model::load(checkpoint_, pool_, options);
  }
  // The error of a load that must fail.
  Error refusal() {
    auto model = load();
    EXPECT_FALSE(model);
    return model ? Error{} : model.error();
  }
  std::vector<float> decode(Model& model, Sequence& sequence, std::vector<std::uint32_t> ids) {
    const auto logits = model.decode(sequence, ids);
    EXPECT_TRUE(logits) << to_string(logits.error());
    return logits ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>{};
  }

  MemoryCheckpoint checkpoint_;
  kernels::ThreadPool pool_{{.threads = 2}};
};

TEST_F(ModelTest, SaysWhatItIs) {
  const auto model = load();
  ASSERT_TRUE(model) << to_string(model.error());
  const ModelInfo& info = (*model)->info();
  EXPECT_EQ(info.vocab_size, 40U);
  EXPECT_EQ(info.layers, 2U);
  EXPECT_EQ(info.context_length, 24U);
  EXPECT_EQ(info.kv_bytes_per_token, 2U * 2 * 16 * sizeof(float));
  EXPECT_GE(info.weight_bytes, checkpoint_.weight_bytes());
  EXPECT_EQ(info.bytes_per_token, info.weight_bytes);  // tied: the embedding is the head
}

TEST_F(ModelTest, NamesTheTensorThatIsMissing) {
  checkpoint_.erase("model.layers.1.mlp.down_proj");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.subject, "model.layers.1.mlp.down_proj");
}

TEST_F(ModelTest, NamesTheTensorWhoseShapeDisagrees) {
  checkpoint_.at("model.layers.0.self_attn.k_proj").rows = 15;
  EXPECT_EQ(refusal().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal().subject, "model.layers.0.self_attn.k_proj");
}

TEST_F(ModelTest, NeedsAHeadWhenItIsNotTied) {
  checkpoint_.config()["tie_word_embeddings"] = false;
  EXPECT_EQ(refusal().subject, "lm_head");
}

// Each place where a NaN can hide: a number among stacked modules, one of an interleaved pair, a
// norm, a scale.
TEST_F(ModelTest, NamesTheTensorThatHoldsANan) {
  const std::vector<std::string> names = {
      "model.layers.1.self_attn.v_proj", "model.layers.0.mlp.up_proj",
      "model.layers.0.mlp.down_proj", "model.layers.1.input_layernorm.weight",
      "model.embed_tokens"};
  for (const std::string& name : names) {
    float& number = checkpoint_.at(name).values[5];
    const float before = std::exchange(number, kNan);
    EXPECT_EQ(refusal().code, ErrorCode::kInvalidInput);
    EXPECT_EQ(refusal().subject, name);
    number = before;
  }
  EXPECT_TRUE(load());
  auto& scaled = checkpoint_.at("model.layers.1.self_attn.o_proj");
  scaled.scales.assign(32, 0.01F);
  EXPECT_TRUE(load());
  scaled.scales[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refusal().subject, "model.layers.1.self_attn.o_proj");
}

TEST_F(ModelTest, NamesAnUnknownArchitecture) {
  checkpoint_.config()["model_type"] = "perceptron";
  EXPECT_EQ(refusal().code, ErrorCode::kUnsupported);
  EXPECT_NE(refusal().message.find("perceptron"), std::string::npos);
}

TEST_F(ModelTest, RefusesIdsBeyondTheVocabularyAndStoresNothing) {
  const auto model = load();
  const auto sequence = (*model)->make_sequence();
  const std::vector<std::uint32_t> ids = {1, 40};
  EXPECT_EQ((*model)->prefill(*sequence, ids).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ((*model)->decode(*sequence, ids).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ((*model)->logits(*sequence, ids).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ((*model)->decode(*sequence, {}).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(sequence->length(), 0U);
}

TEST_F(ModelTest, RefusesWhatTheContextDoesNotHoldAndStoresNothing) {
  const auto model = load();
  const auto sequence = (*model)->make_sequence();
  const std::vector<std::uint32_t> twenty(20, 1), five(5, 2), four(4, 2), many(2000, 3);
  ASSERT_TRUE((*model)->prefill(*sequence, twenty));
  EXPECT_EQ((*model)->decode(*sequence, five).error().code, ErrorCode::kContextLength);
  EXPECT_EQ((*model)->prefill(*sequence, many).error().code, ErrorCode::kContextLength);
  EXPECT_EQ(sequence->length(), 20U);
  EXPECT_TRUE((*model)->decode(*sequence, four));
  EXPECT_EQ(sequence->length(), 24U);
}

// Finite weights whose products are not: the error names the tensor that made the first of them,
// whoever asks, and the sequence is as it was.
TEST_F(ModelTest, NamesTheTensorWhoseProductOverflows) {
  const std::vector<std::string> names = {
      "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj",
      "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.down_proj", "model.embed_tokens"};
  const std::vector<std::uint32_t> ids = {1, 2, 3}, one = {4};
  for (const std::string layer :
       {"model.layers.0.", "model.layers.1."})  // what o and down are given
    for (const char* module : {"self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"})
      for (float& value : checkpoint_.at(layer + module).values) value *= 1e3F;
  for (const std::string& name : names) {
    const auto before = checkpoint_.at(name).values;
    const bool head = name == "model.embed_tokens";
    for (float& value : checkpoint_.at(name).values) value *= head ? 1e18F : 1e38F;
    auto& norms = checkpoint_.at("model.norm.weight").values;
    if (head) std::ranges::fill(norms, 1e30F);
    for (const auto precision : {kernels::Precision::kExact, kernels::Precision::kFast}) {
      const auto model = load({.precision = precision});
      ASSERT_TRUE(model) << to_string(model.error());
      const auto sequence = (*model)->make_sequence();
      const auto expect_blame = [&](const auto& result, const char* call) {
        ASSERT_FALSE(result) << name << ", " << call;
        EXPECT_EQ(result.error().code, ErrorCode::kInternal);
        EXPECT_EQ(result.error().subject, name) << call;
        EXPECT_EQ(sequence->length(), 0U) << call;
      };
      expect_blame((*model)->decode(*sequence, ids), "decode");
      expect_blame((*model)->decode(*sequence, one), "decode of one");
      expect_blame((*model)->logits(*sequence, ids), "logits");
      // A prefill computes neither the last layer's output nor logits.
      if (name.contains("layers.0")) expect_blame((*model)->prefill(*sequence, ids), "prefill");
    }
    checkpoint_.at(name).values = before;
    std::ranges::fill(norms, 1.0F);
  }
  const auto whole = load();
  EXPECT_TRUE((*whole)->decode(*(*whole)->make_sequence(), ids));
}

TEST_F(ModelTest, ForgetsWhatIsTrimmed) {
  const auto model = load();
  const auto sequence = (*model)->make_sequence();
  const auto want = decode(**model, *sequence, {1, 2, 3, 4});
  ASSERT_TRUE(sequence->trim(2));
  decode(**model, *sequence, {9, 9, 9});
  ASSERT_TRUE(sequence->trim(2));
  EXPECT_EQ(decode(**model, *sequence, {3, 4}), want);
}

TEST_F(ModelTest, KeepsSequencesApart) {
  const auto model = load();
  const auto alone = (*model)->make_sequence();
  const auto want = decode(**model, *alone, {1, 2, 3, 4});
  const auto a = (*model)->make_sequence(), b = (*model)->make_sequence();
  decode(**model, *a, {1, 2});
  decode(**model, *b, {7, 8, 9});
  EXPECT_EQ(decode(**model, *a, {3, 4}), want);
}

TEST_F(ModelTest, GivesTheLastPositionWhateverTheWay) {
  for (const kernels::Precision precision :
       {kernels::Precision::kExact, kernels::Precision::kFast}) {
    const auto model = load({.precision = precision});
    const auto a = (*model)->make_sequence(), b = (*model)->make_sequence();
    const std::vector<std::uint32_t> ids = {5, 6, 7, 8, 9};
    const auto all = (*model)->logits(*a, ids);
    const auto last = decode(**model, *b, ids);
    ASSERT_TRUE(all);
    EXPECT_EQ(last, std::vector<float>(all->end() - 40, all->end()));
  }
}

TEST_F(ModelTest, SeesOnlyTheWindowInSlidingLayers) {
  checkpoint_.config()["layer_types"] = {"sliding_attention", "sliding_attention"};
  checkpoint_.config()["sliding_window"] = 3;
  const auto model = load();
  const auto a = (*model)->make_sequence(), b = (*model)->make_sequence();
  // Two layers of window 3 look back four positions; what lies before changes nothing.
  const auto want = decode(**model, *a, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(decode(**model, *b, {9, 2, 3, 4, 5, 6, 7}), want);
  const auto c = (*model)->make_sequence();
  EXPECT_NE(decode(**model, *c, {1, 2, 9, 4, 5, 6, 7}), want);
}

TEST_F(ModelTest, ReportsProgressUpToTheEnd) {
  std::uint64_t last = 0, total = 0, calls = 0;
  const auto model = load({.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    ++calls;
  }});
  ASSERT_TRUE(model);
  EXPECT_EQ(last, checkpoint_.weight_bytes());
  EXPECT_EQ(total, last);
  EXPECT_GT(calls, 1U);
  EXPECT_LE(calls, 101U);
}

}  // namespace
}  // namespace exo::engine
