#include "app/node_inference.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <optional>

#include "core/file.h"
#include "core/id.h"

namespace exo::app {
namespace {

// A runner whose chunks the test sends.
class FakeRunner final : public Runner {
 public:
  struct Log {
    std::vector<std::string> cancelled = {};
    std::map<std::string, api::Inference::OnChunk> callbacks = {};
    bool full = false;
    std::string problem = {};
    int alive = 0;
  };
  explicit FakeRunner(Log& log) : log_(log) { ++log_.alive; }
  ~FakeRunner() override { --log_.alive; }
  Result<void> generate(const TaskId& id, protocol::TextRequest,
                        api::Inference::OnChunk on_chunk) override {
    if (log_.full) return fail(ErrorCode::kBusy, "the queue is full");
    log_.callbacks[id.value] = std::move(on_chunk);
    return {};
  }
  void cancel(const TaskId& id) override { log_.cancelled.push_back(id.value); }
  std::string problem() const override { return log_.problem; }

 private:
  Log& log_;
};

class NodeInferenceTest : public testing::Test {
 protected:
  NodeInferenceTest() {
    paths_.models = root_ / "models";
    // A tiny model in Hugging Face layout that the store takes as it is: its weights are never
    // read.
    const auto folder = paths_.models / "test--m";
    const std::string header = R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";
    const std::uint64_t size = header.size();
    const std::string weights =
        std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + "0000";
    EXPECT_TRUE(write_file(folder / "model.safetensors", weights));
    EXPECT_TRUE(write_file(
        folder / "config.json",
        R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 1, "vocab_size": 1})"));
  }
  ~NodeInferenceTest() override { std::filesystem::remove_all(root_); }

  NodeInference make(InferenceOptions options = {}) {
    return {models::Store(paths_), options,
            [this](const models::StoredModel&) -> Result<std::unique_ptr<Runner>> {
              ++started_;
              return std::make_unique<FakeRunner>(log_);
            },
            clock_};
  }
  static protocol::TextRequest request() {
    protocol::TextRequest request;
    request.model = {"test/m"};
    return request;
  }
  static protocol::Chunk token(const char* text) {
    protocol::TokenChunk chunk;
    chunk.text = text;
    return chunk;
  }
  api::Inference::OnChunk collect() {
    return [this](protocol::Chunk chunk) { chunks_.push_back(std::move(chunk)); };
  }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("exo-inference-" + random_hex(8));
  Paths paths_;
  FakeRunner::Log log_;
  ManualClock clock_;
  std::vector<protocol::Chunk> chunks_;
  int started_ = 0;
};

TEST_F(NodeInferenceTest, TheFirstRequestStartsARunnerWhichLaterOnesShare) {
  NodeInference inference = make();
  EXPECT_FALSE(inference.models().front().running);
  const auto first = inference.generate({"1"}, request(), collect());
  const auto second = inference.generate({"2"}, request(), collect());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second);
  EXPECT_EQ(started_, 1);
  EXPECT_TRUE(inference.models().front().running);
}

TEST_F(NodeInferenceTest, WithoutAutoPlacementAModelThatIsNotLoadedIsNotFound) {
  NodeInference inference = make({.auto_place = false});
  const auto generation = inference.generate({"1"}, request(), collect());
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(started_, 0);
}

TEST_F(NodeInferenceTest, ChunksArriveUntilTheGenerationIsDestroyedWhichCancelsIt) {
  NodeInference inference = make();
  {
    const auto generation = inference.generate({"1"}, request(), collect());
    ASSERT_TRUE(generation);
    log_.callbacks["1"](token("a"));
    EXPECT_EQ(chunks_.size(), 1u);
  }
  EXPECT_EQ(log_.cancelled, std::vector<std::string>{"1"});
  log_.callbacks["1"](token("b"));
  EXPECT_EQ(chunks_.size(), 1u);
}

TEST_F(NodeInferenceTest, AFinishedGenerationIsNotCancelled) {
  NodeInference inference = make();
  auto generation = inference.generate({"1"}, request(), collect());
  ASSERT_TRUE(generation);
  EXPECT_TRUE(inference.cancel({"1"}));
  log_.callbacks["1"](protocol::FinishChunk{});
  EXPECT_FALSE(inference.cancel({"1"}));
  generation->reset();
  EXPECT_EQ(log_.cancelled.size(), 1u);
  EXPECT_EQ(chunks_.size(), 1u);
}

TEST_F(NodeInferenceTest, AGenerationMayBeDestroyedByItsOwnCallback) {
  NodeInference inference = make();
  std::unique_ptr<api::Generation> generation;
  auto made =
      inference.generate({"1"}, request(), [&](const protocol::Chunk&) { generation.reset(); });
  ASSERT_TRUE(made);
  generation = std::move(*made);
  log_.callbacks["1"](token("a"));
  EXPECT_EQ(generation, nullptr);
}

TEST_F(NodeInferenceTest, AFullQueueLeavesNothingBehind) {
  NodeInference inference = make({.idle_ttl = std::chrono::seconds(10)});
  log_.full = true;
  const auto generation = inference.generate({"1"}, request(), collect());
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().code, ErrorCode::kBusy);
  clock_.advance(std::chrono::seconds(11));
  inference.release_idle();
  EXPECT_EQ(log_.alive, 0);
}

TEST_F(NodeInferenceTest, AnIdleRunnerLeavesAndABusyOneStays) {
  NodeInference inference = make({.idle_ttl = std::chrono::seconds(10)});
  const auto generation = inference.generate({"1"}, request(), collect());
  ASSERT_TRUE(generation);
  clock_.advance(std::chrono::seconds(60));
  inference.release_idle();
  EXPECT_EQ(log_.alive, 1) << "a generation is under way";
  log_.callbacks["1"](protocol::FinishChunk{});
  clock_.advance(std::chrono::seconds(9));
  inference.release_idle();
  EXPECT_EQ(log_.alive, 1) << "its time counts from the last use";
  clock_.advance(std::chrono::seconds(2));
  inference.release_idle();
  log_.callbacks.clear();
  EXPECT_EQ(log_.alive, 0);
}

TEST_F(NodeInferenceTest, AfterShutDownNothingStarts) {
  NodeInference inference = make();
  ASSERT_TRUE(inference.generate({"1"}, request(), collect()));
  inference.shut_down();
  EXPECT_EQ(log_.alive, 0);
  const auto generation = inference.generate({"2"}, request(), collect());
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().code, ErrorCode::kUnavailable);
}

TEST_F(NodeInferenceTest, TellsWhatIsWrongWithARunner) {
  NodeInference inference = make();
  EXPECT_EQ(inference.health_problem(), "");
  const auto generation = inference.generate({"1"}, request(), collect());
  log_.problem = "crashes again and again";
  EXPECT_EQ(inference.health_problem(), "test/m: crashes again and again");
}

TEST_F(NodeInferenceTest, AnUnknownModelIsNotFound) {
  NodeInference inference = make();
  EXPECT_EQ(inference.resolve("nobody").error().code, ErrorCode::kNotFound);
  protocol::TextRequest other = request();
  other.model = {"no/body"};
  EXPECT_EQ(inference.generate({"1"}, other, collect()).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace exo::app
