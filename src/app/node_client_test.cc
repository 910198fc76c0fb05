#include "app/node_client.h"

#include <arpa/inet.h>
#include <array>
#include <gtest/gtest.h>
#include <stop_token>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace exo::app {
namespace {

TEST(ChatEvents, CollectTextReasonAndUsage) {
  ChatOutcome outcome;
  EXPECT_EQ(*apply_chat_event(outcome,
                              R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})"),
            "");
  EXPECT_EQ(*apply_chat_event(outcome, R"({"choices": [{"delta": {"content": "Hel"}}]})"), "Hel");
  EXPECT_EQ(*apply_chat_event(
                outcome, R"({"choices": [{"delta": {"content": "lo"}, "finish_reason": null}]})"),
            "lo");
  EXPECT_EQ(*apply_chat_event(
                outcome, R"({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": null})"),
            "");
  EXPECT_EQ(
      *apply_chat_event(
          outcome, R"({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})"),
      "");
  EXPECT_EQ(*apply_chat_event(outcome, "[DONE]"), "");
  EXPECT_EQ(outcome.text, "Hello");
  EXPECT_EQ(outcome.finish_reason, "stop");
  EXPECT_EQ(outcome.prompt_tokens, 3);
  EXPECT_EQ(outcome.completion_tokens, 2);
}

TEST(ChatEvents, AnErrorFrameIsAnError) {
  ChatOutcome outcome;
  const auto text =
      apply_chat_event(outcome, R"({"error": {"message": "the runner died", "code": 500}})");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "the runner died");
}

TEST(ChatEvents, WhatIsNoEventIsAnErrorNotACrash) {
  for (const char* bad : {"", "{", "[]", "7"}) {
    ChatOutcome outcome;
    EXPECT_FALSE(apply_chat_event(outcome, bad)) << bad;
  }
  for (const char* odd :
       {R"({"choices": 1})", R"({"choices": [1]})", R"({"choices": [{"delta": 1}]})",
        R"({"choices": [{"delta": {"content": 1}}], "usage": 1})"}) {
    ChatOutcome outcome;
    EXPECT_EQ(*apply_chat_event(outcome, odd), "") << odd;
  }
}

TEST(ErrorBody, GivesTheNodesOwnWords) {
  const Error error = error_from_body(404, R"({"error": {"message": "no model is called x"}})");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message, "no model is called x");
  const char* too_long = R"({"error": {"message": "too long", "code": "context_length_exceeded"}})";
  EXPECT_EQ(error_from_body(400, too_long).code, ErrorCode::kContextLength);
  EXPECT_EQ(error_from_body(502, "<html>").message, "the node answered with HTTP status 502");
}

// Takes one connection on the loopback address, reads the request's head, sends `pieces`, and
// closes, or waits for the other side to close.
class CannedServer {
 public:
  explicit CannedServer(std::vector<std::string> pieces, bool stays_open = false)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ =
        std::jthread([this, pieces = std::move(pieces), stays_open] { serve(pieces, stays_open); });
  }
  ~CannedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void serve(const std::vector<std::string>& pieces, bool stays_open) const {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    std::array<char, 4096> buffer{};
    EXPECT_GT(::recv(client, buffer.data(), buffer.size(), 0), 0);
    for (const std::string& piece : pieces)
      ::send(client, piece.data(), piece.size(), MSG_NOSIGNAL);
    while (stays_open && ::recv(client, buffer.data(), buffer.size(), 0) > 0) {
    }
    ::close(client);
  }

  int listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

std::string chunk(const std::string& text) {
  std::array<char, 16> size{};
  std::snprintf(size.data(), size.size(), "%zx", text.size());
  return std::string(size.data()) + "\r\n" + text + "\r\n";
}

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const std::string kHel = chunk("data: {\"choices\": [{\"delta\": {\"content\": \"Hel\"}}]}\n\n");

TEST(NodeClient, StreamsAChunkedAnswer) {
  const CannedServer server({kStreamHead, chunk(": keep-alive\n\n"), kHel,
                             chunk("data: {\"choices\": [{\"delta\": {\"content\": \"lo\"},"),
                             chunk(" \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n"),
                             chunk("")});
  std::vector<std::string> pieces;
  const auto outcome =
      NodeClient("127.0.0.1", server.port(), "key")
          .stream_chat(Json::object(), [&](std::string_view text) { pieces.emplace_back(text); },
                       {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(pieces, (std::vector<std::string>{"Hel", "lo"}));
  EXPECT_EQ(outcome->finish_reason, "stop");
  EXPECT_FALSE(outcome->stopped);
}

TEST(NodeClient, AStopEndsAStreamThatGoesOn) {
  const CannedServer server({kStreamHead, kHel}, /*stays_open=*/true);
  std::stop_source stop;
  const auto outcome =
      NodeClient("127.0.0.1", server.port(), "")
          .stream_chat(
              Json::object(), [&](std::string_view) { stop.request_stop(); }, stop.get_token());
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->stopped);
  EXPECT_EQ(outcome->text, "Hel");
}

TEST(NodeClient, AStreamThatBreaksOffIsAnError) {
  const CannedServer server({kStreamHead, kHel});
  const auto outcome = NodeClient("127.0.0.1", server.port(), "")
                           .stream_chat(Json::object(), [](std::string_view) {}, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kIo);
}

TEST(NodeClient, AnErrorStatusGivesTheNodesWords) {
  const std::string body = R"({"error": {"message": "no such model"}})";
  const CannedServer server({"HTTP/1.1 404 Not Found\r\ncontent-length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + body});
  const auto answer = NodeClient("127.0.0.1", server.port(), "").get("/v1/models");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error(), (Error{ErrorCode::kNotFound, "no such model", ""}));
}

TEST(NodeClient, WhatIsNoHttpIsAnError) {
  const CannedServer server({"220 mail.example ESMTP\r\n"});
  EXPECT_FALSE(NodeClient("127.0.0.1", server.port(), "").get("/health"));
}

TEST(NodeClient, SaysThatNobodyAnswers) {
  NodeClient client("127.0.0.1", 1, "");
  const auto answer = client.get("/health");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace exo::app
