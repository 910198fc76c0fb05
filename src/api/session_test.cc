#include "api/session.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include <nlohmann/json.hpp>

#include "api/served_test.h"

namespace exo::api {
namespace {

using std::chrono::milliseconds;
using SessionTest = ServedTest;

constexpr milliseconds kNever = std::chrono::hours(1);
constexpr const char* kOrigin = "Origin: http://localhost\r\n";

// Sends bytes one by one until the other side ends the connection; false if it never does.
bool is_cut_off(RawClient& client, std::string_view begin, std::string_view drip) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  client.send(begin);
  while (std::chrono::steady_clock::now() < deadline) {
    if (client.ends_within(/*milliseconds=*/10) || !client.send(drip)) return true;
  }
  return false;
}

TEST_F(SessionTest, RequestsInOnePacketAreAnsweredInTurn) {
  inference.echoes = true;
  serve();
  RawClient client = connect();
  client.send(request_text("GET", "/health") + chat_text("two") + chat_text("three") +
              request_text("GET", "/nowhere", "Connection: close\r\n"));
  EXPECT_EQ(client.read().body, R"({"status":"ok"})");
  EXPECT_EQ(Json::parse(client.read().body)["choices"][0]["message"]["content"], "two");
  EXPECT_EQ(Json::parse(client.read().body)["choices"][0]["message"]["content"], "three");
  EXPECT_EQ(client.read().status, 404);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(SessionTest, EveryReplyNamesItsRequest) {
  serve();
  for (const std::string& request :
       {request_text("GET", "/health"), request_text("GET", "/nowhere"),
        std::string("nonsense\r\n\r\n"), request_text("POST", "/v1/chat/completions", "", "{")}) {
    const Response response = ask(request);
    EXPECT_TRUE(response.header("x-request-id").starts_with("req_")) << request;
    EXPECT_EQ(response.header("x-request-id").size(), 28U);
    EXPECT_EQ(response.header("request-id"), response.header("x-request-id"));
  }
}

TEST_F(SessionTest, HeadIsGetWithoutItsBody) {
  serve();
  for (const char* path : {"/", "/health", "/v1/models", "/v1/models/org/m", "/nowhere"}) {
    RawClient client = connect();
    client.send(request_text("HEAD", path) + request_text("GET", path));
    const Response head = client.read(/*to_head=*/true), get = client.read();
    EXPECT_EQ(head.status, get.status) << path;
    EXPECT_GT(get.body.size(), 0U);
    EXPECT_EQ(head.header("content-length"), std::to_string(get.body.size())) << path;
    EXPECT_EQ(head.header("content-type"), get.header("content-type")) << path;
  }
}

TEST_F(SessionTest, OptionsTellsTheMethodsAndWrongOnesAreRefusedWithThem) {
  serve();
  const Response options = ask(request_text("OPTIONS", "/v1/chat/completions"));
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("allow"), "POST, OPTIONS");
  EXPECT_EQ(options.header("content-length"), "");
  const Response wrong = ask(request_text("DELETE", "/v1/models"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(Json::parse(wrong.body)["error"]["type"], "invalid_request_error");
}

TEST_F(SessionTest, APreflightFromTheNodesOwnOriginIsAnswered) {
  serve();
  const std::string asks =
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-a\r\n";
  const Response own = ask(request_text("OPTIONS", "/v1/chat/completions", kOrigin + asks));
  EXPECT_EQ(own.status, 200);
  EXPECT_EQ(own.body, "OK");
  EXPECT_EQ(own.header("access-control-allow-origin"), "http://localhost");
  EXPECT_EQ(own.header("access-control-allow-credentials"), "true");
  EXPECT_EQ(own.header("access-control-allow-headers"), "x-a");
  EXPECT_EQ(own.header("access-control-max-age"), "600");
  EXPECT_EQ(own.header("vary"), "Origin");
  const Response foreign =
      ask(request_text("OPTIONS", "/v1/chat/completions", "Origin: https://evil\r\n" + asks));
  EXPECT_EQ(foreign.status, 403);
  EXPECT_EQ(foreign.header("access-control-allow-origin"), "");
}

TEST_F(SessionTest, AForeignOriginGeneratesNothing) {
  serve();
  const Response response = ask(chat_text("hi", "", "Origin: https://evil\r\n"));
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(Json::parse(response.body)["error"]["code"], "origin_not_allowed");
  EXPECT_EQ(inference.count(), 0U);
}

TEST_F(SessionTest, TheAddressThatTheClientReachedIsTheNodesOwn) {
  serve({.listen = {"0.0.0.0"}});
  const auto asked = [&](const std::string& host) {
    return ask(fmt::format("GET /health HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\n\r\n", host))
        .header("access-control-allow-origin");
  };
  EXPECT_EQ(asked("127.0.0.1:8000"), "http://127.0.0.1:8000");
  EXPECT_EQ(asked("LOCALHOST"), "http://LOCALHOST");
  EXPECT_EQ(asked("127.0.0.2"), "") << "the node was not reached by this one";
  EXPECT_EQ(asked("rebound.example"), "");
}

TEST_F(SessionTest, RefusalsCarryTheCorsHeaders) {
  Limits limits;
  limits.header_bytes = 1024;
  limits.body_bytes = limits.all_body_bytes = 64;
  serve_within(limits);
  for (const auto& [status, request] : std::initializer_list<std::pair<int, std::string>>{
           {431, request_text("GET", "/", kOrigin + ("X: " + std::string(2000, 'x') + "\r\n"))},
           {400, fmt::format("GET / HTTP/1.1\r\nHost: localhost\r\n{}no colon\r\n\r\n", kOrigin)},
           {400, fmt::format("GET / HTTP/1.1\r\nno colon\r\nHost: localhost\r\n{}\r\n", kOrigin)},
           {413, chat_text(std::string(100, 'x'), "", kOrigin)},
           {400, request_text("POST", "/v1/chat/completions", kOrigin, "{")},
           {404, request_text("GET", "/nowhere", kOrigin)}}) {
    const Response response = ask(request);
    EXPECT_EQ(response.status, status) << request;
    EXPECT_EQ(response.header("access-control-allow-origin"), "http://localhost") << request;
    EXPECT_TRUE(Json::parse(response.body)["error"]["message"].is_string());
  }
}

TEST_F(SessionTest, AKeyIsAskedForBeforeAnythingIsReadOrRun) {
  serve({.listen = {"127.0.0.1"}, .api_keys = {"secret"}});
  const Response none = ask(request_text("POST", "/v1/chat/completions",
                                         "Content-Length: 90000000\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(Json::parse(none.body)["error"]["code"], "invalid_api_key");
  EXPECT_EQ(ask(chat_text("hi", "", "Authorization: Bearer wrong\r\n")).status, 401);
  EXPECT_EQ(inference.count(), 0U);
  inference.echoes = true;
  EXPECT_EQ(ask(chat_text("hi", "", "Authorization: bearer secret\r\n")).status, 200);
  EXPECT_EQ(ask(chat_text("hi", "", "x-api-key: secret\r\n")).status, 200);
}

TEST_F(SessionTest, BodiesInChunksAreRead) {
  inference.echoes = true;
  serve();
  const std::string body = chat_body("in chunks");
  RawClient client = connect();
  client.send(request_text("POST", "/v1/chat/completions", "Transfer-Encoding: chunked\r\n"));
  for (const std::string& piece : {body.substr(0, 7), body.substr(7)})
    client.send(fmt::format("{:x};extension=1\r\n{}\r\n", piece.size(), piece));
  client.send("0\r\nTrailer: x\r\n\r\n" + request_text("GET", "/health"));
  EXPECT_EQ(Json::parse(client.read().body)["choices"][0]["message"]["content"], "in chunks");
  EXPECT_EQ(client.read().status, 200) << "the connection stays in step";
}

TEST_F(SessionTest, WrongFramingIsRefused) {
  serve();
  for (const char* headers :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: -1\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 99999999999999999999\r\n"}) {
    RawClient client = connect();
    client.send(request_text("POST", "/v1/chat/completions", headers) + "hello");
    EXPECT_EQ(client.read().status, 400) << headers;
    EXPECT_EQ(client.read_to_end(), "") << "what follows is no request";
  }
  EXPECT_EQ(ask(request_text("POST", "/v1/chat/completions", "Transfer-Encoding: chunked\r\n") +
                "no size\r\n")
                .status,
            400);
  EXPECT_EQ(inference.count(), 0U);
}

TEST_F(SessionTest, AChunksHeaderWithoutAnEndIsRefused) {
  serve();
  RawClient client = connect();
  client.send(request_text("POST", "/v1/chat/completions", "Transfer-Encoding: chunked\r\n") +
              "5;");
  client.send(std::string(1 << 20, 'x'));
  EXPECT_EQ(client.read().status, 400);
}

TEST_F(SessionTest, ATruncatedRequestRunsNothing) {
  serve();
  const std::string whole = chat_text("hi");
  for (const std::size_t size : {std::size_t{1}, std::size_t{20}, whole.size() - 1}) {
    RawClient client = connect();
    client.send(whole.substr(0, size));
    client.end_sending();
    EXPECT_EQ(client.read_to_end(), "") << size;
  }
  EXPECT_EQ(inference.count(), 0U);
}

TEST_F(SessionTest, ALongBodyIsRefusedAndTheClientLearnsWhy) {
  Limits limits;
  limits.body_bytes = 1024;
  serve_within(limits);
  RawClient client = connect();  // sends all of it before it reads, as many clients do
  EXPECT_TRUE(client.send(chat_text(std::string(4 << 20, 'x'))));
  Response response = client.read();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(Json::parse(response.body)["error"]["message"],
            "the request's body is longer than 1 KiB");
  RawClient chunked = connect();
  chunked.send(request_text("POST", "/v1/chat/completions", "Transfer-Encoding: chunked\r\n") +
               "800\r\n" + std::string(0x800, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read().status, 413);
  EXPECT_EQ(ask(request_text("GET", "/health", "Content-Length: 70000\r\n")).status, 413)
      << "a path that takes no body";
}

TEST_F(SessionTest, AllBodiesTogetherAreBounded) {
  Limits limits;
  limits.all_body_bytes = 4096;
  serve_within(limits);
  RawClient first = connect();
  first.send(chat_text(std::string(3000, 'x'), R"(, "stream": true)"));
  ASSERT_TRUE(inference.started(0));
  const std::string second = chat_text(std::string(2000, 'y'));
  const Response refused = ask(second);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "server_error");
  RawClient chunked = connect();  // whose length nobody knows before
  chunked.send(request_text("POST", "/v1/chat/completions", "Transfer-Encoding: chunked\r\n") +
               "800\r\n" + std::string(0x800, 'x') + "\r\n");
  EXPECT_EQ(chunked.read().status, 503);
  EXPECT_EQ(ask(request_text("GET", "/health")).status, 200);

  inference.send(0, protocol::FinishChunk{});
  EXPECT_TRUE(first.read_to_end().ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
  RawClient again = connect();
  again.send(second);
  EXPECT_TRUE(inference.started(1)) << "the first request's share is free";
}

TEST_F(SessionTest, AClientThatDripsItsHeadersIsCutOff) {
  Limits limits;
  limits.header_time = milliseconds(200);
  limits.body_pause = kNever;
  serve_within(limits);
  RawClient client = connect();
  EXPECT_TRUE(is_cut_off(client, "GET / HTTP/1.1\r\nX: ", "x"));
  RawClient idle = connect();
  idle.send(request_text("GET", "/health"));
  EXPECT_EQ(idle.read().status, 200);
  EXPECT_TRUE(idle.ends_within(/*milliseconds=*/5000))
      << "a kept connection does not stay for ever";
}

TEST_F(SessionTest, AClientThatDripsItsBodyIsCutOff) {
  Limits limits;
  limits.header_time = kNever;
  limits.body_pause = milliseconds(200);  // no pause is as long, but the whole is too slow
  limits.body_bytes_per_second = 1 << 20;
  serve_within(limits);
  RawClient client = connect();
  EXPECT_TRUE(is_cut_off(
      client, request_text("POST", "/v1/chat/completions", "Content-Length: 5000\r\n"), "x"));
  RawClient chunked = connect();
  EXPECT_TRUE(is_cut_off(
      chunked,
      request_text("POST", "/v1/chat/completions", "Transfer-Encoding: chunked\r\n") + "5;", "x"));
  RawClient silent = connect();
  silent.send(request_text("POST", "/v1/chat/completions", "Content-Length: 5000\r\n"));
  EXPECT_TRUE(silent.ends_within(/*milliseconds=*/5000));
  EXPECT_EQ(inference.count(), 0U);
}

TEST_F(SessionTest, ExpectationsAreMet) {
  inference.echoes = true;
  serve();
  RawClient client = connect();
  const std::string body = chat_body("hi");
  client.send(
      request_text("POST", "/v1/chat/completions",
                   fmt::format("Expect: 100-continue\r\nContent-Length: {}\r\n", body.size())));
  EXPECT_EQ(client.read_head().status, 100);
  client.send(body);
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(SessionTest, Http10IsAnsweredInKind) {
  serve();
  RawClient client = connect();
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n"), "HTTP/1.0 200 OK\r\n");
  EXPECT_TRUE(client.read_to_end().ends_with(R"({"status":"ok"})")) << "and the connection ends";
}

}  // namespace
}  // namespace exo::api
