// Logits of whole models against tests/golden/make_logits.py, and against themselves: chunks,
// threads, instruction sets, precisions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "engine/logit_scan.h"
#include "engine/model.h"
#include "kernels/isa.h"

namespace exo::engine {
namespace {

namespace fs = std::filesystem;
using kernels::Precision;

const fs::path kGolden = fs::path(EXO_SOURCE_DIR) / "tests/golden/logits";
constexpr double kTolerance = 2e-3;  // of max |reference| per position

Json read_golden(const fs::path& path) {
  auto text = read_file(path, std::size_t{1} << 24);
  EXPECT_TRUE(text) << path;
  return Json::parse(text.value_or("{}"));
}

struct Loaded {
  std::unique_ptr<kernels::ThreadPool> pool = {};
  std::unique_ptr<Model> model = {};
};

Loaded load(const fs::path& path, Precision precision, std::size_t threads = 2) {
  Loaded loaded{.pool = std::make_unique<kernels::ThreadPool>(
                    kernels::ThreadPoolOptions{.threads = threads})};
  auto checkpoint = models::open_checkpoint(path);
  if (!checkpoint) {
    ADD_FAILURE() << path << ": " << to_string(checkpoint.error());
    return loaded;
  }
  auto model = Model::load(**checkpoint, *loaded.pool, {.precision = precision});
  if (model)
    loaded.model = std::move(*model);
  else
    ADD_FAILURE() << path << ": " << to_string(model.error());
  return loaded;
}

// The logits of all positions, prompt cut into chunks of `chunk`.
std::vector<float> logits_of(Model& model, const std::vector<std::uint32_t>& ids,
                             std::size_t chunk) {
  const auto sequence = model.make_sequence();
  std::vector<float> result;
  for (std::size_t i = 0; i < ids.size(); i += chunk) {
    auto part = model.logits(*sequence, std::span(ids).subspan(i, std::min(chunk, ids.size() - i)));
    if (!part) {
      ADD_FAILURE() << to_string(part.error());
      return {};
    }
    result.insert(result.end(), part->begin(), part->end());
  }
  EXPECT_EQ(sequence->length(), ids.size());
  return result;
}

// ±1 as make_logits.py draws it.
double sign(std::uint64_t projection, std::uint64_t token) {
  std::uint64_t z = ((projection << 32) + token + 1) * 0x9e37'79b9'7f4a'7c15U;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebU;
  return (z ^ (z >> 31)) >> 63 ? -1 : 1;
}

// The largest difference between one position's logits and what the golden file knows of them.
double difference(std::span<const float> logits, const Json& want) {
  double worst = 0;
  const auto differ = [&](double got, double expected) {
    worst = std::isfinite(got) ? std::max(worst, std::abs(got - expected)) : INFINITY;
  };
  for (std::size_t i = 0; i < want["top"].size(); ++i)
    differ(logits[want["top"][i].get<std::size_t>()], want["logits"][i].get<double>());
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  differ(largest + std::log(sum), want["log_sum_exp"].get<double>());
  for (std::size_t p = 0; p < want["projections"].size(); ++p) {
    double projection = 0;
    for (std::size_t t = 0; t < logits.size(); ++t) projection += sign(p, t) * logits[t];
    differ(projection / std::sqrt(static_cast<double>(logits.size())),
           want["projections"][p].get<double>());
  }
  return worst;
}

// max |difference| / max |reference| over all positions.
double worst_deviation(const std::vector<float>& logits, const Json& golden) {
  const auto vocab = golden["vocab_size"].get<std::size_t>();
  const Json& positions = golden["positions"];
  EXPECT_EQ(logits.size(), vocab * positions.size());
  if (logits.size() != vocab * positions.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < positions.size(); ++i)
    worst = std::max(worst, difference(std::span(logits).subspan(i * vocab, vocab), positions[i]) /
                                positions[i]["largest"].get<double>());
  return worst;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// Σ p ln(p / q) of the distributions that two rows of logits stand for.
double kullback_leibler(std::span<const float> p, std::span<const float> q) {
  const double p_total = log_sum_exp(p, largest_logit(p));
  const double q_total = log_sum_exp(q, largest_logit(q));
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    sum += std::exp(p[i] - p_total) * ((p[i] - p_total) - (q[i] - q_total));
  return sum;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - b[i]));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return worst / largest;
}

std::vector<fs::path> tiny_checkpoints() {
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator(kGolden))
    if (entry.is_directory()) result.push_back(entry.path());
  std::ranges::sort(result);
  return result;
}

class Tiny : public testing::TestWithParam<fs::path> {
 protected:
  Tiny()
      : golden_(read_golden(GetParam() / "golden.json")),
        ids_(golden_["ids"].get<std::vector<std::uint32_t>>()) {}

  std::vector<float> logits(Precision precision, std::size_t chunk, std::size_t threads = 2) {
    const Loaded loaded = load(GetParam(), precision, threads);
    return loaded.model ? logits_of(*loaded.model, ids_, chunk) : std::vector<float>{};
  }

  Json golden_;
  std::vector<std::uint32_t> ids_;
};

TEST_P(Tiny, MatchesTheReferenceOnEveryInstructionSet) {
  const kernels::Isa before = kernels::active_isa();
  for (const kernels::Isa isa : kernels::available_isas()) {
    ASSERT_TRUE(kernels::set_isa(isa));
    EXPECT_LE(worst_deviation(logits(Precision::kExact, 512), golden_), kTolerance)
        << kernels::name(isa);
  }
  ASSERT_TRUE(kernels::set_isa(before));
}

TEST_P(Tiny, DoesNotDependOnChunks) {
  const auto whole = logits(Precision::kExact, 512);
  for (const std::size_t chunk : {1, 2, 5})
    EXPECT_LE(largest_difference(logits(Precision::kExact, chunk), whole), 1e-3) << chunk;
}

TEST_P(Tiny, DoesNotDependOnThreadsInASingleBit) {
  for (const Precision precision : {Precision::kExact, Precision::kFast})
    for (const std::size_t chunk : {1, 512})
      EXPECT_EQ(logits(precision, chunk, 1), logits(precision, chunk, 3)) << chunk;
}

TEST_P(Tiny, FastPointsWhereExactPoints) {
  const auto exact = logits(Precision::kExact, 512), fast = logits(Precision::kFast, 512);
  const auto vocab = golden_["vocab_size"].get<std::size_t>();
  for (std::size_t i = 0; i < ids_.size(); ++i)
    EXPECT_GE(cosine(std::span(fast).subspan(i * vocab, vocab),
                     std::span(exact).subspan(i * vocab, vocab)),
              0.999)
        << "position " << i;
}

std::size_t window_of(const fs::path& checkpoint) {
  return read_golden(checkpoint / "config.json").value("sliding_window", std::size_t{0});
}

std::vector<fs::path> windowed_checkpoints() {
  auto result = tiny_checkpoints();
  std::erase_if(result, [](const fs::path& path) { return window_of(path) == 0; });
  return result;
}

class TinyWindow : public Tiny {};

// Around the edges of a layer's window: prompts that end there, and the token behind them.
TEST_P(TinyWindow, DecodesAcrossTheEdge) {
  const std::size_t window = window_of(GetParam());
  const Loaded loaded = load(GetParam(), Precision::kExact);
  ASSERT_TRUE(loaded.model);
  const auto vocab = golden_["vocab_size"].get<std::size_t>();
  for (const std::size_t prompt : {window - 1, window, window + 1, 2 * window}) {
    ASSERT_LT(prompt, ids_.size());
    const auto sequence = loaded.model->make_sequence();
    for (std::size_t end = prompt; end <= ids_.size(); ++end) {
      const auto next = std::span(ids_).first(end).subspan(end == prompt ? 0 : end - 1);
      const auto logits = loaded.model->decode(*sequence, next);
      ASSERT_TRUE(logits) << to_string(logits.error());
      ASSERT_EQ(logits->size(), vocab);
      const Json& want = golden_["positions"][end - 1];
      EXPECT_LE(difference(*logits, want) / want["largest"].get<double>(), kTolerance)
          << "prompt of " << prompt << ", position " << end - 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Tiny, testing::ValuesIn(tiny_checkpoints()),
                         [](const auto& test) { return test.param.filename().string(); });
INSTANTIATE_TEST_SUITE_P(Golden, TinyWindow, testing::ValuesIn(windowed_checkpoints()),
                         [](const auto& test) { return test.param.filename().string(); });

// A real model, which ./bootstrap test fetches and names in a variable.
class RealModel : public testing::Test {
 protected:
  RealModel(const char* variable, const char* golden) : variable_(variable), file_(golden) {}

  void SetUp() override {
    const char* path = std::getenv(variable_);
    ASSERT_NE(path, nullptr) << variable_ << " is not set: it names a model's .gguf file";
    path_ = path;
    golden_ = read_golden(kGolden / file_);
    ids_ = golden_["ids"].get<std::vector<std::uint32_t>>();
  }

  void expect_reference(std::size_t chunk) {
    const Loaded loaded = load(path_, Precision::kExact);
    ASSERT_TRUE(loaded.model);
    const double deviation = worst_deviation(logits_of(*loaded.model, ids_, chunk), golden_);
    RecordProperty("deviation", std::to_string(deviation));
    EXPECT_LE(deviation, kTolerance);
  }

  const char* variable_;
  const char* file_;
  fs::path path_;
  Json golden_;
  std::vector<std::uint32_t> ids_;
};

class Starter : public RealModel {
 protected:
  Starter() : RealModel("EXO_STARTER_GGUF", "starter.json") {}
};

class Second : public RealModel {
 protected:
  Second() : RealModel("EXO_SECOND_GGUF", "second.json") {}
};

TEST_F(Second, MatchesTheReference) {
  ASSERT_EQ(ids_.size(), 256U);
  expect_reference(100);
}

TEST_F(Starter, MatchesTheReference) { expect_reference(40); }

// Int8 activations cost this model more than larger ones. The bounds are about twice what was seen
// (cosine 0.9989, divergence 0.0045); llama.cpp on the same ids: 0.9994 and 0.0047.
TEST_F(Starter, FastStaysNearExact) {
  const Loaded exact_model = load(path_, Precision::kExact),
               fast_model = load(path_, Precision::kFast);
  ASSERT_TRUE(exact_model.model && fast_model.model);
  const auto exact = logits_of(*exact_model.model, ids_, 512);
  const auto fast = logits_of(*fast_model.model, ids_, 512);
  const auto vocab = golden_["vocab_size"].get<std::size_t>();
  double divergence = 0, similarity = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const auto p = std::span(exact).subspan(i * vocab, vocab);
    const auto q = std::span(fast).subspan(i * vocab, vocab);
    divergence += kullback_leibler(p, q) / static_cast<double>(ids_.size());
    similarity += cosine(p, q) / static_cast<double>(ids_.size());
  }
  EXPECT_LE(divergence, 0.01);
  EXPECT_GE(similarity, 0.998);
}

TEST_F(Starter, DecodesWhatItPrefilled) {
  const Loaded loaded = load(path_, Precision::kExact);
  ASSERT_TRUE(loaded.model);
  const auto whole = logits_of(*loaded.model, ids_, 512);
  const auto sequence = loaded.model->make_sequence();
  ASSERT_TRUE(loaded.model->prefill(*sequence, std::span(ids_).first(ids_.size() - 1)));
  const auto last = loaded.model->decode(*sequence, std::span(ids_).last(1));
  ASSERT_TRUE(last);
  EXPECT_LE(largest_difference(*last, std::span(whole).last(last->size())), 1e-3);
}

}  // namespace
}  // namespace exo::engine
