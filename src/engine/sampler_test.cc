// Worked examples of models.md 5.6–5.8 and what must hold around them.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace exo::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kExample = {2, 1, 0, -1};

SamplerOptions plain(double temperature) {
  return {.temperature = temperature, .top_p = 1, .min_p = 0};
}

// How often each id comes out of `draws` draws from the same logits.
std::map<std::uint32_t, double> frequencies(SamplerOptions options,
                                            const std::vector<float>& logits, int draws = 20000) {
  Sampler sampler(std::move(options), {});
  std::map<std::uint32_t, double> result;
  for (int i = 0; i < draws; ++i) {
    std::vector<float> copy = logits;
    result[sampler.sample(copy).id] += 1.0 / draws;
  }
  return result;
}

void expect_distribution(const std::map<std::uint32_t, double>& got,
                         const std::vector<double>& want) {
  for (std::uint32_t id = 0; id < want.size(); ++id) {
    const auto found = got.find(id);
    if (want[id] == 0)
      EXPECT_EQ(found, got.end()) << id;
    else
      EXPECT_NEAR(found == got.end() ? 0 : found->second, want[id], 0.012) << id;
  }
}

TEST(Sampler, DrawsFromTheSoftmaxOfTheLogits) {
  expect_distribution(frequencies(plain(1), kExample), {0.643914, 0.236883, 0.087144, 0.032059});
}

TEST(Sampler, FiltersAsTheWorkedExampleSays) {
  SamplerOptions top_p = plain(0.7);
  top_p.top_p = 0.9;
  expect_distribution(frequencies(top_p, kExample), {0.770960, 0.184761, 0.044278, 0});
  for (const double min_p : {0.1, 0.05}) {
    SamplerOptions options = plain(1);
    options.min_p = min_p;
    expect_distribution(frequencies(options, kExample), {0.665241, 0.244728, 0.090031, 0});
  }
}

TEST(Sampler, TopPKeepsTheLargestHoweverSmallItIs) {
  SamplerOptions options = plain(1);
  options.top_p = 1e-9;
  expect_distribution(frequencies(options, kExample, 1000), {1, 0, 0, 0});
}

TEST(Sampler, TopKKeepsTheLowestIdsAmongTies) {
  SamplerOptions options = plain(1);
  options.top_k = 2;
  expect_distribution(frequencies(options, {1, 1, 1, 1}), {0.5, 0.5, 0, 0});
  options.top_k = 100;  // beyond the vocabulary: no filter
  expect_distribution(frequencies(options, {1, 1, 1, 1}), {0.25, 0.25, 0.25, 0.25});
}

TEST(Sampler, FiltersOfALargeVocabularyKeepWhatSortingWouldKeep) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = normal(engine);
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](auto a, auto b) { return logits[a] > logits[b]; });
  double total = 0, mass = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  std::size_t kept = 0;
  while (mass < 0.97) mass += std::exp(double{logits[order[kept++]]}) / total;
  ASSERT_GT(kept, 300U);  // more than one portion is sorted

  SamplerOptions options = plain(100);  // nearly uniform over what is kept
  options.top_p = 0.97;
  const auto got = frequencies(options, logits, 8000);
  const std::vector<std::uint32_t> front(order.begin(), order.begin() + static_cast<long>(kept));
  EXPECT_GT(got.size(), kept / 2);
  for (const auto& [id, share] : got) EXPECT_NE(std::ranges::find(front, id), front.end()) << id;
}

TEST(Sampler, IsGreedyAtTemperatureZeroWithTheLowestIdOnTies) {
  Sampler sampler(plain(0), {});
  for (const std::size_t size : {1, 2, 15, 16, 17, 33, 1000}) {
    std::vector<float> logits(size, -2);
    logits[size / 2] = logits[size - 1] = 5;
    EXPECT_EQ(sampler.sample(logits).id, size / 2) << size;
  }
}

TEST(Sampler, NeverChoosesANanWhileThereIsANumber) {
  for (const double temperature : {0.0, 1.0}) {
    std::vector<float> logits(40, kNan);
    logits[21] = -3;
    EXPECT_EQ(Sampler(plain(temperature), {}).sample(logits).id, 21U) << temperature;
    std::vector<float> none(40, kNan);
    EXPECT_LT(Sampler(plain(temperature), {}).sample(none).id, none.size());
  }
}

TEST(Sampler, RepeatsItselfForASeedAndOnlyForIt) {
  const auto run = [](std::uint64_t seed) {
    SamplerOptions options = plain(1);
    options.seed = seed;
    Sampler sampler(options, {});
    std::vector<std::uint32_t> ids;
    for (int i = 0; i < 50; ++i) {
      std::vector<float> logits(100, 0);
      ids.push_back(sampler.sample(logits).id);
    }
    return ids;
  };
  EXPECT_EQ(run(0), run(0));
  EXPECT_NE(run(0), run(1));
}

// The example of models.md 5.7: window and generated ids [5, 5, 7], r = 1.5, p = 0.5, f = 0.25.
TEST(Sampler, AppliesThePenaltiesInTheirOrder) {
  SamplerOptions options = plain(0);
  options.repetition_penalty = 1.5;
  options.presence_penalty = 0.5;
  options.frequency_penalty = 0.25;
  Sampler sampler(options, {});
  for (const std::uint32_t id : {5, 5, 7}) {
    std::vector<float> force(8, 0);
    force[id] = 1000;
    ASSERT_EQ(sampler.sample(force).id, id);
  }
  std::vector<float> logits = {0, 0, 0, 0, 0, 3, 9, -1};
  EXPECT_EQ(sampler.sample(logits).id, 6U);
  EXPECT_FLOAT_EQ(logits[5], 1.0F);
  EXPECT_FLOAT_EQ(logits[7], -2.25F);
}

TEST(Sampler, RepetitionSeesTheTailOfThePromptAndPresenceDoesNot) {
  SamplerOptions options = plain(0);
  options.repetition_penalty = 2;
  options.presence_penalty = 4;
  options.repetition_context_size = 2;
  const std::vector<std::uint32_t> prompt = {0, 1, 2};
  Sampler sampler(options, prompt);
  std::vector<float> logits = {8, 8, 8, 20};
  sampler.sample(logits);
  EXPECT_EQ(logits, (std::vector<float>{8, 4, 4, 20}));
  logits = {8, 8, 8, 20};
  sampler.sample(logits);  // the window is now {2, 3}; 3 was generated
  EXPECT_EQ(logits, (std::vector<float>{8, 8, 4, 6}));
  options.repetition_context_size = 0;
  Sampler off(options, prompt);
  logits = {8, 8, 8, 20};
  off.sample(logits);
  EXPECT_EQ(logits, (std::vector<float>{8, 8, 8, 20}));
}

TEST(Sampler, BansAndBiasesIdsAndPassesOverThoseBeyondTheVocabulary) {
  SamplerOptions options = plain(0);
  options.banned = {0, 400};
  options.logit_bias = {{2, 5.0}, {500, 5.0}, {0, 100.0}};
  std::vector<float> logits = {10, 9, 8};
  EXPECT_EQ(Sampler(options, {}).sample(logits).id, 2U);
}

TEST(Sampler, ReportsLogprobsAfterProcessorsAndBeforeFilters) {
  SamplerOptions options = {.temperature = 0.1, .top_p = 0.1, .min_p = 0.9};
  options.logprobs = true;
  options.top_logprobs = 3;
  std::vector<float> logits = {2, 1, 0, -1, kNan};
  const Sampled sampled = Sampler(options, {}).sample(logits);
  EXPECT_EQ(sampled.id, 0U);
  EXPECT_NEAR(sampled.logprob, -0.440190, 1e-6);
  ASSERT_EQ(sampled.top.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sampled.top[i].first, i);
    EXPECT_NEAR(sampled.top[i].second, -0.440190 - i, 1e-6);
  }
  options.top_logprobs = 20;  // more than there are numbers
  EXPECT_EQ(Sampler(options, {}).sample(logits).top.size(), 4U);
}

}  // namespace
}  // namespace exo::engine
