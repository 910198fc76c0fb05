// One model on several ranks against the same model on one.
#include "engine/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <mutex>

#include "comm/test_groups.h"
#include "engine/logit_scan.h"

namespace exo::engine {
namespace {

namespace fs = std::filesystem;
using comm::ProcessGroup;
using comm::TestTransport;

fs::path golden(const char* name) {
  return fs::path(EXO_SOURCE_DIR) / "tests/golden/logits" / name;
}

LoadOptions exact() { return {.precision = kernels::Precision::kExact}; }

// What a caller does with a model: a prompt in two pieces, steps, a look back, all logits.
struct Outcome {
  std::vector<std::uint32_t> greedy = {};
  std::vector<float> logits = {};
};

std::vector<std::uint32_t> prompt_for(const Model& model) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < 37; ++i)
    ids.push_back((i * 7919 + 11) % static_cast<std::uint32_t>(model.info().vocab_size));
  return ids;
}

void use(Model& model, Outcome& outcome) {
  const std::vector<std::uint32_t> prompt = prompt_for(model);
  const auto sequence = model.make_sequence();
  ASSERT_TRUE(model.prefill(*sequence, std::span(prompt).first(20)));
  auto next = model.decode(*sequence, std::span(prompt).subspan(20));
  for (int step = 0; step < 12; ++step) {
    ASSERT_TRUE(next) << to_string(next.error());
    outcome.greedy.push_back(argmax(*next));
    next = model.decode(*sequence, std::span(&outcome.greedy.back(), 1));
  }
  ASSERT_TRUE(sequence->trim(30));
  next = model.decode(*sequence, std::span(prompt).first(3));
  ASSERT_TRUE(next) << to_string(next.error());
  outcome.logits.assign(next->begin(), next->end());
  const auto other = model.make_sequence();
  const auto all = model.logits(*other, prompt);
  ASSERT_TRUE(all) << to_string(all.error());
  outcome.logits.insert(outcome.logits.end(), all->begin(), all->end());
  EXPECT_EQ(other->length(), prompt.size());
}

Outcome alone(const models::Checkpoint& checkpoint) {
  kernels::ThreadPool pool({.threads = 1});
  const auto model = Model::load(checkpoint, pool, exact());
  Outcome outcome;
  EXPECT_TRUE(model) << to_string(model.error());
  use(**model, outcome);
  return outcome;
}

Outcome together(const models::Checkpoint& checkpoint, const Layout& layout,
                 TestTransport transport) {
  std::size_t ranks = 0;
  for (const Stage& stage : layout.stages) ranks += stage.ranks.size();
  Outcome outcome;
  comm::run_ranks(ranks, transport, [&](ProcessGroup& group) {
    kernels::ThreadPool pool({.threads = 1});
    if (group.rank() != 0) {
      const auto followed = follow(checkpoint, pool, exact(), std::move(group), layout);
      EXPECT_TRUE(followed) << to_string(followed.error());
      return;
    }
    const auto model = load_leader(checkpoint, pool, exact(), std::move(group), layout);
    ASSERT_TRUE(model) << to_string(model.error());
    use(**model, outcome);
  });
  return outcome;
}

void expect_same(const Outcome& got, const Outcome& want, const std::string& what) {
  EXPECT_EQ(got.greedy, want.greedy) << what;
  ASSERT_EQ(got.logits.size(), want.logits.size()) << what;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < want.logits.size(); ++i) {
    largest = std::max<double>(largest, std::abs(want.logits[i]));
    difference = std::max<double>(difference, std::abs(got.logits[i] - want.logits[i]));
  }
  EXPECT_LT(difference, 2e-4 * largest) << what;
}

Layout hybrid(std::size_t layers) {
  const std::size_t half = layers / 2;
  return {.stages = {{.end_layer = half, .ranks = {0, 2}},
                     {.first_layer = half, .end_layer = layers, .ranks = {3, 1}}}};
}

// Whether every rank gets something: one group of 128 columns cannot be split.
bool can_be_split(const models::Checkpoint& checkpoint, const Layout& layout, std::size_t ranks) {
  const DecoderSpec whole = decoder_spec(checkpoint.config()).value();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto spec = shard_of(whole, layout, rank, [&](const LinearSpec& module) {
      const auto view = checkpoint.matrix(module.name, module.rows, module.cols);
      return Result<std::size_t>(column_unit(view.value().format));
    });
    if (spec) continue;
    EXPECT_EQ(spec.error().code, ErrorCode::kUnsupported) << to_string(spec.error());
    return false;
  }
  return true;
}

void every_layout_agrees(const fs::path& path, TestTransport transport) {
  const auto checkpoint = models::open_checkpoint(path);
  ASSERT_TRUE(checkpoint) << path << to_string(checkpoint.error());
  const Outcome want = alone(**checkpoint);
  const std::size_t layers = decoder_spec((*checkpoint)->config()).value().layers.size();
  const auto check = [&](const Layout& layout, const std::string& what) {
    expect_same(together(**checkpoint, layout, transport), want, path.filename().string() + what);
  };
  if (can_be_split(**checkpoint, tensor_layout(layers, 2), 2))
    check(tensor_layout(layers, 2), ", tensor over 2");
  for (std::size_t first = 1; first < layers; ++first) {
    check({.stages = {{.end_layer = first, .ranks = {0}},
                      {.first_layer = first, .end_layer = layers, .ranks = {1}}}},
          ", pipeline split at " + std::to_string(first));
  }
  if (layers >= 2) check(hybrid(layers), ", both");
}

TEST(Parallel, EveryLayoutOfEveryTinyCheckpointAgrees) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(golden(""))) {
    if (!entry.is_directory()) continue;
    every_layout_agrees(entry.path(), static_cast<TestTransport>(count++ % 3));
  }
  EXPECT_GT(count, 30U);
}

// The starter model has 3 key-value heads of 3 query heads each, the second one of 4.
void real_model_agrees(const char* variable) {
  const char* path = std::getenv(variable);
  ASSERT_NE(path, nullptr) << "set " << variable << ", as ./bootstrap test does";
  const auto checkpoint = models::open_checkpoint(path);
  ASSERT_TRUE(checkpoint) << to_string(checkpoint.error());
  const Outcome want = alone(**checkpoint);
  const std::size_t layers = decoder_spec((*checkpoint)->config()).value().layers.size();
  for (const std::size_t ranks : {2, 3, 4}) {
    const std::string of = " over " + std::to_string(ranks);
    expect_same(together(**checkpoint, tensor_layout(layers, ranks), TestTransport::kSharedMemory),
                want, "tensor" + of);
    expect_same(together(**checkpoint, pipeline_layout(layers, ranks), TestTransport::kSealedTcp),
                want, "pipeline" + of);
  }
  expect_same(together(**checkpoint, hybrid(layers), TestTransport::kSealedTcp), want, "both");
}

TEST(Parallel, TheStarterModelAgrees) { real_model_agrees("EXO_STARTER_GGUF"); }
TEST(Parallel, TheSecondModelAgrees) { real_model_agrees("EXO_SECOND_GGUF"); }

TEST(Parallel, ErrorsLeaveTheGroupUsable) {
  const auto checkpoint = models::open_checkpoint(std::getenv("EXO_STARTER_GGUF")).value();
  const Layout layout = tensor_layout(30, 2);
  comm::run_ranks(2, TestTransport::kSharedMemory, [&](ProcessGroup& group) {
    kernels::ThreadPool pool({.threads = 1});
    if (group.rank() != 0) {
      EXPECT_TRUE(follow(*checkpoint, pool, {}, std::move(group), layout));
      return;
    }
    const auto model = load_leader(*checkpoint, pool, {}, std::move(group), layout).value();
    const auto sequence = model->make_sequence();
    const std::vector<std::uint32_t> ids = {1, 2, 3}, beyond = {1, 99'999'999};
    ASSERT_TRUE(model->prefill(*sequence, ids));
    EXPECT_EQ(model->prefill(*sequence, beyond).error().code, ErrorCode::kInvalidInput);
    EXPECT_EQ(model->decode(*sequence, {}).error().code, ErrorCode::kInvalidInput);
    EXPECT_EQ(sequence->length(), 3U);
    EXPECT_TRUE(model->decode(*sequence, ids));
    const std::vector<std::uint32_t> long_text(100'000, 5);
    EXPECT_EQ(model->prefill(*sequence, long_text).error().code, ErrorCode::kContextLength);
    EXPECT_TRUE(model->decode(*sequence, ids));
    EXPECT_EQ(sequence->length(), 9U);
  });
}

TEST(Parallel, ARankThatLeavesEndsTheModelWithAnError) {
  const auto checkpoint = models::open_checkpoint(std::getenv("EXO_STARTER_GGUF")).value();
  const Layout layout = pipeline_layout(30, 2);
  comm::run_ranks(2, TestTransport::kSealedTcp, [&](ProcessGroup& group) {
    kernels::ThreadPool pool({.threads = 1});
    if (group.rank() != 0) {
      std::optional<ProcessGroup> own(std::move(group));
      std::jthread killer([end = own->subgroup(std::array<std::size_t, 2>{0, 1})]() mutable {
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        end.abort();
      });
      EXPECT_FALSE(follow(*checkpoint, pool, {}, std::move(*own), layout));
      return;
    }
    const auto model = load_leader(*checkpoint, pool, {}, std::move(group), layout).value();
    const auto sequence = model->make_sequence();
    const std::uint32_t id = 5;
    Result<std::span<float>> result = std::span<float>();
    for (int i = 0; i < 8000 && result; ++i) result = model->decode(*sequence, std::span(&id, 1));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable) << to_string(result.error());
    EXPECT_EQ(result.error().subject, "rank 1");
  });
}

TEST(Shard, LayoutsThatAreNoneAreRefused) {
  EXPECT_TRUE(check_layout(pipeline_layout(7, 3), 7));
  EXPECT_TRUE(check_layout(tensor_layout(7, 3), 7));
  EXPECT_FALSE(check_layout({}, 7));
  EXPECT_FALSE(check_layout(pipeline_layout(6, 3), 7));
  EXPECT_FALSE(check_layout(pipeline_layout(2, 3), 2));  // a stage without layers
  Layout twice = pipeline_layout(7, 2);
  twice.stages[1].ranks = {0};
  EXPECT_FALSE(check_layout(twice, 7));
  Layout backwards = pipeline_layout(7, 2);
  std::swap(backwards.stages[0].ranks, backwards.stages[1].ranks);
  EXPECT_FALSE(check_layout(backwards, 7));
}

TEST(Shard, WidthsAreDividedAmongAnyNumberOfRanks) {
  const auto checkpoint = models::open_checkpoint(std::getenv("EXO_STARTER_GGUF")).value();
  const DecoderSpec whole = decoder_spec(checkpoint->config()).value();
  const auto unit = [](const LinearSpec&) -> Result<std::size_t> { return 32; };
  for (const std::size_t ranks : {2, 3, 5, 7, 9}) {
    std::size_t heads = 0, intermediate = 0, tokens = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto spec = shard_of(whole, tensor_layout(30, ranks), rank, unit);
      ASSERT_TRUE(spec) << ranks << to_string(spec.error());
      heads += std::get<AttentionSpec>(spec->layers[0].mixer).heads;
      intermediate += std::get<GatedSpec>(spec->layers[0].feed_forward).down.cols;
      tokens += spec->tokens();
    }
    EXPECT_EQ(heads, 9U) << ranks;
    EXPECT_EQ(intermediate, 1536U) << ranks;
    EXPECT_EQ(tokens, whole.vocab_size) << ranks;
  }
  const auto too_many = shard_of(whole, tensor_layout(30, 10), 0, unit);
  EXPECT_EQ(too_many.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace exo::engine
