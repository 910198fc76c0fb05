// The supervisor against fake runners: this program starts itself again as one.
#include "worker/runner_process.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <optional>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/mutex.h"
#include "protocol/frame.h"

namespace exo::worker {
namespace {

using namespace std::chrono_literals;
using protocol::RunnerState;

// ---- the fake runner ----

class FakeRunner {
 public:
  FakeRunner(std::string mode, int socket) : mode_(std::move(mode)), socket_(socket) {}

  int run() {
    if (mode_ == "exits") return 3;
    if (mode_ == "garbage") {
      const std::array<unsigned char, 8> bytes = {255, 255, 255, 255, 1, 2, 3, 4};
      ::send(socket_, bytes.data(), bytes.size(), 0);
      ::sleep(60);
    }
    send(protocol::Hello{.version = mode_ == "version" ? 99 : protocol::kTaskProtocolVersion});
    while (const auto task = next()) {
      if (std::holds_alternative<protocol::Shutdown>(*task)) {
        if (mode_ == "hangs") ::sleep(60);
        return 0;
      }
      if (std::holds_alternative<protocol::LoadModel>(*task)) load();
      if (const auto* generate = std::get_if<protocol::Generate>(&*task)) answer(*generate);
      if (const auto* cancel = std::get_if<protocol::Cancel>(&*task))
        send(protocol::TaskChunk{.id = cancel->id,
                                 .chunk = protocol::FinishChunk{.cancelled = true}});
    }
    return 0;
  }

 private:
  void send(const protocol::Report& report) {
    const auto frame = protocol::encode_frame(protocol::to_json(report));
    ::send(socket_, frame->data(), frame->size(), MSG_NOSIGNAL);
  }

  std::optional<protocol::Task> next() {
    for (;;) {
      const auto frame = frames_.next();
      if (!frame) return std::nullopt;
      if (*frame) return *protocol::task_from(**frame);
      std::array<std::byte, 4096> buffer;
      const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
      if (count <= 0) return std::nullopt;
      frames_.append(std::span(buffer).first(static_cast<std::size_t>(count)));
    }
  }

  void load() {
    if (mode_ == "fails") {
      send(protocol::RunnerStatus{
          .state = RunnerState::kFailed,
          .error = Error{.code = ErrorCode::kUnsupported, .message = "no such architecture"}});
      std::exit(1);
    }
    if (mode_ == "stalls") ::sleep(60);
    send(protocol::LoadedModel{.context_length = 42, .weight_bytes = 7, .load_seconds = 1});
    send(protocol::RunnerStatus{.state = RunnerState::kReady});
  }

  void answer(const protocol::Generate& generate) {
    const std::string prompt = generate.request.prompt.value_or("");
    if (prompt == "wait") return;
    send(protocol::TaskChunk{.id = generate.id, .chunk = protocol::TokenChunk{.text = prompt}});
    if (prompt == "die") {
      std::fputs("the last words\n", stderr);
      std::fflush(stderr);
      ::kill(::getpid(), SIGKILL);
    }
    send(protocol::TaskChunk{.id = generate.id, .chunk = protocol::FinishChunk{}});
  }

  std::string mode_;
  int socket_;
  protocol::FrameReader frames_;
};

// ---- the tests' side ----

class Answers {
 public:
  RunnerProcess::OnChunk collect() {
    return [this](protocol::Chunk chunk) {
      MutexLock lock(mutex_);
      chunks_.push_back(std::move(chunk));
      changed_.notify_all();
    };
  }

  // All chunks, once `count` terminal ones are among them.
  std::vector<protocol::Chunk> wait_for(std::ptrdiff_t count) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    MutexLock lock(mutex_);
    while (std::ranges::count_if(chunks_, protocol::is_terminal) < count) {
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
    }
    EXPECT_EQ(std::ranges::count_if(chunks_, protocol::is_terminal), count);
    return chunks_;
  }

  Error error() {
    const auto chunks = wait_for(1);
    const auto* error =
        chunks.empty() ? nullptr : std::get_if<protocol::ErrorChunk>(&chunks.back());
    return error == nullptr ? Error{.message = "no error came"} : error->error;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<protocol::Chunk> chunks_;
};

const SteadyClock kClock;

std::unique_ptr<RunnerProcess> start(const std::string& mode,
                                     std::chrono::milliseconds limit = 60s) {
  RunnerProcessOptions options;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--fake-runner",
                     mode};
  options.model_path = "nowhere";
  options.model = ModelId{"org/model"};
  options.max_queued = 4;
  options.load_limit = options.answer_limit = limit;
  return *RunnerProcess::start(std::move(options), kClock);
}

protocol::TextRequest request(const std::string& prompt) {
  protocol::TextRequest made;
  made.model = ModelId{"org/model"};
  made.prompt = prompt;
  return made;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(RunnerProcess, holds_requests_until_the_model_is_ready_and_answers_them) {
  Answers answers;
  const auto runner = start("normal");
  ASSERT_TRUE(runner->generate(TaskId{"a"}, request("hello"), answers.collect()));
  const auto chunks = answers.wait_for(1);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(std::get<protocol::TokenChunk>(chunks[0]).text, "hello");
  EXPECT_TRUE(std::holds_alternative<protocol::FinishChunk>(chunks[1]));
  EXPECT_TRUE(runner->ready());
  EXPECT_EQ(runner->loaded().context_length, 42U);
  EXPECT_EQ(runner->problem(), "");
}

TEST(RunnerProcess, cancels_what_runs_and_refuses_more_than_it_may_queue) {
  Answers answers;
  const auto runner = start("normal");
  for (const char* id : {"a", "b", "c", "d"})
    ASSERT_TRUE(runner->generate(TaskId{id}, request("wait"), answers.collect()));
  const auto full = runner->generate(TaskId{"e"}, request("wait"), answers.collect());
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kBusy);
  runner->cancel(TaskId{"b"});
  const auto chunks = answers.wait_for(1);
  EXPECT_TRUE(std::get<protocol::FinishChunk>(chunks.back()).cancelled);
}

TEST(RunnerProcess, tells_of_a_killed_process_and_starts_another) {
  Answers broken, whole;
  const auto runner = start("normal");
  ASSERT_TRUE(runner->generate(TaskId{"a"}, request("die"), broken.collect()));
  const Error error = broken.error();
  EXPECT_NE(error.message.find("the runner of org/model ended before the answer was complete "
                               "(signal 9 (Killed))"),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("memory"), std::string::npos);
  EXPECT_NE(error.message.find("the last words"), std::string::npos);
  ASSERT_TRUE(runner->generate(TaskId{"b"}, request("again"), whole.collect()));
  EXPECT_TRUE(std::holds_alternative<protocol::FinishChunk>(whole.wait_for(1).back()));
}

TEST(RunnerProcess, says_what_the_load_failed_with) {
  Answers answers;
  const auto runner = start("fails");
  ASSERT_TRUE(runner->generate(TaskId{"a"}, request("x"), answers.collect()));
  // Not the request is unsupported, whatever the runner says of the model.
  EXPECT_EQ(answers.error().code, ErrorCode::kUnavailable);
  const auto again = runner->generate(TaskId{"b"}, request("x"), answers.collect());
  ASSERT_FALSE(again);
  const std::string message = runner->problem();
  EXPECT_TRUE(message.ends_with(" cannot be loaded: no such architecture")) << message;
  EXPECT_EQ(again.error().message, message);
}

class Hopeless : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Hopeless, is_given_up_with_the_reason) {
  Answers answers;
  const auto runner = start(GetParam().first);
  ASSERT_TRUE(runner->generate(TaskId{"a"}, request("x"), answers.collect()));
  const Error error = answers.error();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find(GetParam().second), std::string::npos) << error.message;
  EXPECT_NE(runner->problem().find("5 failures"), std::string::npos) << runner->problem();
  EXPECT_FALSE(runner->generate(TaskId{"b"}, request("x"), answers.collect()));
}

INSTANTIATE_TEST_SUITE_P(Modes, Hopeless,
                         testing::Values(std::pair("exits", "exit code 3"),
                                         std::pair("garbage", "sent nonsense"),
                                         std::pair("version", "version 99")),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(RunnerProcess, kills_a_runner_that_loads_without_progress) {
  const auto runner = start("stalls", 300ms);
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (runner->problem().empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(20ms);
  EXPECT_NE(runner->problem().find("no progress"), std::string::npos) << runner->problem();
}

TEST(RunnerProcess, kills_a_runner_that_stops_answering) {
  Answers answers;
  const auto runner = start("normal", 1s);
  ASSERT_TRUE(runner->generate(TaskId{"a"}, request("wait"), answers.collect()));
  EXPECT_NE(answers.error().message.find("no progress"), std::string::npos);
}

TEST(RunnerProcess, ends_what_is_under_way_when_it_is_destroyed) {
  Answers answers;
  auto runner = start("hangs");
  ASSERT_TRUE(runner->generate(TaskId{"a"}, request("wait"), answers.collect()));
  while (!runner->ready()) std::this_thread::sleep_for(5ms);
  const auto begun = std::chrono::steady_clock::now();
  runner.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  EXPECT_EQ(answers.error().message, "the node is shutting down");
}

TEST(RunnerProcess, may_be_destroyed_by_its_own_callback) {
  Answers answers;
  const std::ptrdiff_t before = open_descriptors();
  std::shared_ptr<RunnerProcess> runner = start("normal");
  auto collect = answers.collect();
  auto* handle = runner.get();
  ASSERT_TRUE(
      handle->generate(TaskId{"a"}, request("x"),
                       [held = std::make_shared<std::shared_ptr<RunnerProcess>>(std::move(runner)),
                        collect](protocol::Chunk chunk) {
                         if (protocol::is_terminal(chunk)) held->reset();
                         collect(std::move(chunk));
                       }));
  answers.wait_for(1);
  // Its thread ends by itself and leaves nothing behind.
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (open_descriptors() != before && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RunnerProcess, leaks_no_descriptors_over_twenty_crashes) {
  const std::ptrdiff_t before = open_descriptors();
  {
    const auto runner = start("normal");
    for (int i = 0; i < 20; ++i) {
      Answers broken, whole;
      ASSERT_TRUE(runner->generate(TaskId{"a"}, request("die"), broken.collect()));
      broken.wait_for(1);
      // A whole answer in between, so that it is not given up.
      ASSERT_TRUE(runner->generate(TaskId{"b"}, request("x"), whole.collect()));
      whole.wait_for(1);
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace

int run_fake_runner(const char* mode, int socket) { return FakeRunner(mode, socket).run(); }

}  // namespace exo::worker

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--fake-runner") == 0)
    return exo::worker::run_fake_runner(argv[2], std::atoi(argv[4]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
