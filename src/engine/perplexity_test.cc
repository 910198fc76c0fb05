#include "engine/perplexity.h"

#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace exo::engine {
namespace {

constexpr std::size_t kVocabulary = 8;

class FakeSequence final : public Sequence {
 public:
  std::size_t length() const override { return length_; }
  Result<void> trim(std::size_t length) override {
    length_ = length;
    return {};
  }
  std::size_t bytes() const override { return 0; }
  std::size_t length_ = 0;
};

// Expects id + 1 behind id, by a logit of 1 over all others, but at the first position of a
// sequence every id alike.
class CountingModel final : public Model {
 public:
  const ModelInfo& info() const override { return info_; }
  std::unique_ptr<Sequence> make_sequence() override { return std::make_unique<FakeSequence>(); }
  Result<void> prefill(Sequence&, std::span<const std::uint32_t>) override { return {}; }
  Result<std::span<float>> decode(Sequence&, std::span<const std::uint32_t>) override {
    return std::span<float>();
  }
  Result<std::vector<float>> logits(Sequence& sequence,
                                    std::span<const std::uint32_t> ids) override {
    auto& own = dynamic_cast<FakeSequence&>(sequence);
    std::vector<float> rows(ids.size() * kVocabulary);
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (own.length_ + i > 0) rows[i * kVocabulary + (ids[i] + 1) % kVocabulary] = 1;
    own.length_ += ids.size();
    return rows;
  }

 private:
  ModelInfo info_{.vocab_size = kVocabulary};
};

const double kUniform = std::log(8.0), kExpected = std::log(7.0 + std::exp(1.0)) - 1,
             kUnexpected = std::log(7.0 + std::exp(1.0));

TEST(Perplexity, IsTheMeanOverAllButTheFirstOfEachWindow) {
  CountingModel model;
  const std::vector<std::uint32_t> ids = {0, 1, 2, 3, 4, 6};
  // Windows 0 1 2 and 3 4 6: the second of each from the first position, the third from the second.
  const auto result = measure_perplexity(model, ids, {.window = 3});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->scored, 4U);
  EXPECT_NEAR(result->negative_log_likelihood, (2 * kUniform + kExpected + kUnexpected) / 4, 1e-6);
  EXPECT_NEAR(result->value(), std::exp(result->negative_log_likelihood), 1e-12);
}

TEST(Perplexity, AFirstTokenTakesAPlaceInEachWindowAndIsNotScored) {
  CountingModel model;
  const std::vector<std::uint32_t> ids = {1, 2, 3};
  const auto result = measure_perplexity(model, ids, {.window = 3, .first = 0});
  ASSERT_TRUE(result);  // windows 0 1 2 and 0 3
  EXPECT_EQ(result->scored, 3U);
  EXPECT_NEAR(result->negative_log_likelihood, (2 * kUniform + kExpected) / 3, 1e-6);
}

TEST(Perplexity, IsTheSameForAWindowOfSeveralChunks) {
  CountingModel model;
  std::vector<std::uint32_t> ids(400);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i % kVocabulary);
  std::size_t last = 0;
  const auto result = measure_perplexity(
      model, ids, {.window = 400, .progress = [&](std::size_t done, std::size_t total) {
                     EXPECT_LE(last, done);
                     EXPECT_LE(done, total);
                     last = done;
                   }});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->scored, 399U);
  EXPECT_EQ(last, 400U);
  EXPECT_NEAR(result->negative_log_likelihood, (kUniform + 398 * kExpected) / 399, 1e-6);
}

TEST(Perplexity, NeedsSomethingToScore) {
  CountingModel model;
  const std::vector<std::uint32_t> one = {1}, beyond = {1, 9};
  EXPECT_EQ(measure_perplexity(model, one, {}).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(measure_perplexity(model, {}, {}).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(measure_perplexity(model, one, {.window = 1}).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(measure_perplexity(model, beyond, {}).error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace exo::engine
