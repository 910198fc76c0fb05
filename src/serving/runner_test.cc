// The runner process: this program starts itself again as one and talks to it over its socket.
#include "serving/runner.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/subprocess.h"
#include "protocol/frame.h"
#include "protocol/task.h"

namespace exo::serving {
namespace {

using namespace std::chrono_literals;
using protocol::RunnerState;

class Peer {
 public:
  Peer() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
    socket_ = sockets[0];
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    SubprocessOptions options;
    options.arguments = {std::filesystem::read_symlink("/proc/self/exe").string(), "--runner",
                         std::to_string(sockets[1])};
    options.inherited_descriptors = {sockets[1]};
    process_.emplace(*Subprocess::start(std::move(options)));
    ::close(sockets[1]);
  }
  ~Peer() { close(); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  void send(const protocol::Task& task) { send_bytes(*protocol::encode_frame(to_json(task))); }
  void send_bytes(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  std::optional<protocol::Report> next() {
    for (;;) {
      const auto frame = frames_.next();
      if (!frame) return std::nullopt;
      if (*frame) return *protocol::report_from(**frame);
      std::array<std::byte, 4096> buffer{};
      const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
      if (count <= 0) return std::nullopt;
      frames_.append(std::span(buffer).first(static_cast<std::size_t>(count)));
    }
  }

  // The states up to the given one, and what the last status said.
  std::vector<RunnerState> states_until(RunnerState last) {
    std::vector<RunnerState> states;
    while (const auto report = next()) {
      const auto* status = std::get_if<protocol::RunnerStatus>(&*report);
      if (status == nullptr) continue;
      states.push_back(status->state);
      error = status->error;
      if (status->state == last || status->state == RunnerState::kFailed) break;
    }
    return states;
  }

  // All chunks of both tasks and others until `count` have ended.
  std::vector<protocol::TaskChunk> chunks_until_ended(int count) {
    std::vector<protocol::TaskChunk> chunks;
    while (count > 0) {
      const auto report = next();
      if (!report) break;
      const auto* chunk = std::get_if<protocol::TaskChunk>(&*report);
      if (chunk == nullptr) continue;
      chunks.push_back(*chunk);
      if (protocol::is_terminal(chunk->chunk)) --count;
    }
    EXPECT_EQ(count, 0);
    return chunks;
  }

  int exit_code() {
    const auto status = process_->wait_for(10s);
    return status && status->signal == 0 ? status->code : -1;
  }

  Error error;

 private:
  int socket_ = -1;
  std::optional<Subprocess> process_;
  protocol::FrameReader frames_;
};

TEST(Runner, refuses_another_version) {
  Peer peer;
  peer.send(protocol::Hello{.version = 77});
  EXPECT_EQ(peer.states_until(RunnerState::kReady), std::vector<RunnerState>{RunnerState::kFailed});
  EXPECT_NE(peer.error.message.find("version 77"), std::string::npos);
  EXPECT_EQ(peer.exit_code(), 1);
}

TEST(Runner, says_why_a_model_cannot_be_loaded) {
  Peer peer;
  peer.send(protocol::Hello{});
  peer.send(protocol::LoadModel{.id = {"l"}, .path = "/nowhere/at-all", .model = {"m"}});
  peer.states_until(RunnerState::kReady);
  EXPECT_EQ(peer.error.code, ErrorCode::kNotFound) << peer.error.message;
  EXPECT_EQ(peer.exit_code(), 1);
}

TEST(Runner, ends_with_its_node_on_request_and_on_nonsense) {
  Peer gone, asked, bad;
  gone.close();
  asked.send(protocol::Shutdown{});
  bad.send_bytes(std::array<std::byte, 5>{std::byte{1}, {}, {}, {}, std::byte{0xff}});
  EXPECT_EQ(gone.exit_code(), 0);
  EXPECT_EQ(asked.exit_code(), 0);
  EXPECT_EQ(bad.exit_code(), 1);
}

protocol::Generate question(const char* id, std::int64_t most) {
  protocol::Generate generate{.id = {id}};
  generate.request.model = {"m"};
  generate.request.messages = {{.role = "user", .content = "What is the capital of France?"}};
  generate.request.sampling.temperature = 0;
  generate.request.max_output_tokens = most;
  generate.request.logprobs = true;
  generate.request.top_logprobs = 2;
  return generate;
}

TEST(Runner, serves_the_starter_model) {
  const char* path = std::getenv("EXO_STARTER_GGUF");
  ASSERT_NE(path, nullptr)
      << "EXO_STARTER_GGUF is not set: it names the starter model's .gguf file";
  Peer peer;
  peer.send(protocol::Hello{});
  peer.send(protocol::LoadModel{.id = {"l"}, .path = path, .model = {"m"}});
  EXPECT_EQ(peer.states_until(RunnerState::kReady),
            (std::vector{RunnerState::kLoading, RunnerState::kLoaded, RunnerState::kWarmingUp,
                         RunnerState::kReady}))
      << peer.error.message;

  peer.send(question("a", 24));
  std::string text;
  std::size_t entries = 0;
  const auto chunks = peer.chunks_until_ended(1);
  for (const auto& [id, chunk] : chunks) {
    const auto* token = std::get_if<protocol::TokenChunk>(&chunk);
    if (token == nullptr) continue;
    text += token->text;
    entries += token->logprobs.size();
  }
  // What llama.cpp answers to the same prompt, which the model's template opens with a system turn;
  // behind it ("Cité", "Marseillaise") two tokens are a near tie, which the rounding of an
  // instruction set decides.
  EXPECT_TRUE(text.starts_with("L'Étoile, la ")) << text;
  const auto finish = std::get<protocol::FinishChunk>(chunks.back().chunk);
  EXPECT_GT(finish.stats.generation_tps, 0);
  // The end of the sequence counts as a token but has no entry.
  EXPECT_GE(entries + 1, static_cast<std::size_t>(finish.usage.completion_tokens));

  peer.send(question("long", 5000));
  peer.send(question("queued", 5000));
  peer.send(protocol::Cancel{.id = {"queued"}});
  peer.send(protocol::Cancel{.id = {"long"}});
  for (const auto& [id, chunk] : peer.chunks_until_ended(2)) {
    if (protocol::is_terminal(chunk)) {
      EXPECT_TRUE(std::get<protocol::FinishChunk>(chunk).cancelled) << id.value;
    }
  }
  peer.send(question("unfinished", 5000));
  peer.send(protocol::Shutdown{});
  EXPECT_EQ(peer.exit_code(), 0);
}

}  // namespace
}  // namespace exo::serving

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--runner") == 0)
    return exo::serving::run_runner(std::atoi(argv[2]), {});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
