#include "api/server.h"

#include <chrono>
#include <gtest/gtest.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/served_test.h"

namespace exo::api {
namespace {

using std::chrono::milliseconds;
using ServerTest = ServedTest;
constexpr const char* kStreamed = R"(, "stream": true)";

TEST_F(ServerTest, ATakenPortAndAWrongAddressAreErrors) {
  serve();
  const auto taken = Server::start(inference, {.listen = {"127.0.0.1"}, .port = server_->port()});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::kBusy);
  const auto wrong = Server::start(inference, {.listen = {"here"}, .port = 0});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidInput);
}

TEST_F(ServerTest, ListensOnLoopbackUnlessThereIsAKey) {
  const auto closed = Server::start(inference, {.port = 0});
  ASSERT_TRUE(closed);
  EXPECT_EQ((*closed)->addresses().front(), "127.0.0.1");
  const auto open = Server::start(inference, {.port = 0, .api_keys = {"k"}});
  ASSERT_TRUE(open);
  EXPECT_EQ((*open)->addresses().front(), "0.0.0.0");
}

TEST_F(ServerTest, ManyClientsAtOnceGetTheirOwnReplies) {
  inference.echoes = true;
  serve();
  std::vector<RawClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(connect());
    clients.back().send(chat_text(fmt::format("client {}", i), i % 2 == 0 ? kStreamed : ""));
  }
  for (int i = 0; i < 200; ++i) {
    const Response response = clients[static_cast<std::size_t>(i)].read();
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.body.contains(fmt::format("\"client {}\"", i))) << i << response.body;
  }
}

TEST_F(ServerTest, ConnectionsBeyondTheLimitAreTurnedAwayUntilOneGoes) {
  Limits limits;
  limits.connections = 2;
  serve_within(limits);
  RawClient first = connect(), second = connect();
  for (RawClient* client : {&first, &second}) {
    client->send(request_text("GET", "/health"));
    EXPECT_EQ(client->read().status, 200);
  }
  RawClient third = connect();
  const Response refused = third.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "server_error");

  first.close();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  int status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < deadline)
    status = ask(request_text("GET", "/health")).status;
  EXPECT_EQ(status, 200);
}

TEST_F(ServerTest, ClosingEndsStreamsWithAnErrorThatTheirClientsGet) {
  serve();
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < 8; ++i) {
    clients.push_back(connect());
    clients.back().send(chat_text("hi", kStreamed));
    ASSERT_TRUE(inference.started(i));
    inference.send(i, token("some text"));
    clients.back().read_until("some text");
  }
  RawClient whole = connect(), idle = connect();
  whole.send(chat_text("hi"));
  ASSERT_TRUE(inference.started(8));
  idle.send(request_text("GET", "/health"));
  EXPECT_EQ(idle.read().status, 200);

  const auto begin = std::chrono::steady_clock::now();
  server_->close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string rest = clients[i].read_to_end();
    EXPECT_TRUE(rest.contains(R"("message":"this node is shutting down","type":"server_error")"));
    EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
    EXPECT_TRUE(inference.destroyed(i));
  }
  EXPECT_EQ(whole.read().status, 503);
  EXPECT_TRUE(idle.ends_within(/*milliseconds=*/5000));
  RawClient late = connect();
  EXPECT_FALSE(late.send(request_text("GET", "/health")) && late.read().status == 200);
}

TEST_F(ServerTest, ClosingWaitsForNoClientThatDoesNotRead) {
  Limits limits;
  limits.shutdown = milliseconds(200);
  serve_within(limits);
  RawClient client = connect(/*receive_buffer=*/4096);
  client.send(chat_text("hi", kStreamed));
  ASSERT_TRUE(inference.started(0));
  for (int i = 0; i < 16; ++i) inference.send(0, token(std::string(1 << 20, 'x')));
  const auto begin = std::chrono::steady_clock::now();
  server_->close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  server_.reset();
  EXPECT_TRUE(inference.destroyed(0));
}

}  // namespace
}  // namespace exo::api
