#include "api/chat_exchange.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include <nlohmann/json.hpp>

#include "api/served_test.h"

namespace exo::api {
namespace {

using std::chrono::milliseconds;
using ChatExchangeTest = ServedTest;

constexpr const char* kStreamed = R"(, "stream": true)";
constexpr milliseconds kNever = std::chrono::hours(1);

Limits with_silence(milliseconds silence) {
  Limits limits;
  limits.silence = silence;
  return limits;
}

TEST_F(ChatExchangeTest, AWholeReplyIsSentOnceItIsThereAndTheConnectionStays) {
  serve_within(with_silence(milliseconds(20)));  // which concerns streams alone
  RawClient client = connect();
  client.send(chat_text("hi"));
  ASSERT_TRUE(inference.started(0));
  inference.send(0, protocol::PrefillProgress{.processed_tokens = 0, .total_tokens = 3});
  inference.send(0, token("Hel"));
  std::this_thread::sleep_for(milliseconds(100));  // time for what must not be sent
  inference.send(0, token("lo"));
  inference.send(0, protocol::FinishChunk{.usage = {.prompt_tokens = 3, .completion_tokens = 2}});
  const Response response = client.read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-length"), std::to_string(response.body.size()));
  const Json body = Json::parse(response.body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["usage"]["total_tokens"], 5);
  EXPECT_EQ(body["id"], "chatcmpl-" + response.header("x-exo-command-id"));
  client.send(request_text("GET", "/health"));
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ChatExchangeTest, AStreamsHeadersLeaveOnceThePromptIsAccepted) {
  serve_within(with_silence(kNever));
  RawClient client = connect();
  client.send(chat_text("hi", kStreamed));
  ASSERT_TRUE(inference.started(0));
  inference.send(0, protocol::PrefillProgress{.processed_tokens = 0, .total_tokens = 12});
  const Response head = client.read_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-type"), "text/event-stream");
  EXPECT_EQ(head.header("cache-control"), "no-cache");
  EXPECT_EQ(head.header("connection"), "close");
  EXPECT_EQ(head.header("x-accel-buffering"), "no");
  EXPECT_EQ(head.header("x-exo-command-id").size(), 36U);
  EXPECT_EQ(client.read_chunk(),
            ": keep-alive\n\n: prefill_progress "
            R"({"PrefillProgressChunk":{"model":"org/m","processed_tokens":0,"total_tokens":12}})"
            "\n\n");
  inference.send(0, token("Hi"));
  const std::string first = client.read_chunk();
  EXPECT_LT(first.find(R"("role":"assistant")"), first.find(R"("content":"Hi")"));
  inference.send(0, protocol::FinishChunk{});
  const std::string rest = client.read_to_end();
  EXPECT_TRUE(rest.contains(R"("finish_reason":"stop")"));
  EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(ChatExchangeTest, AFailureBeforeTheHeadersHasItsStatus) {
  serve_within(with_silence(kNever));
  std::size_t index = 0;
  for (const char* streamed : {kStreamed, ""}) {
    for (const auto& [code, status] :
         std::initializer_list<std::pair<ErrorCode, int>>{{ErrorCode::kContextLength, 400},
                                                          {ErrorCode::kBusy, 429},
                                                          {ErrorCode::kUnavailable, 503},
                                                          {ErrorCode::kInternal, 500}}) {
      RawClient client = connect();
      client.send(chat_text("hi", streamed));
      ASSERT_TRUE(inference.started(index));
      inference.send(index++, protocol::ErrorChunk{{code, "it failed"}});
      const Response response = client.read();
      EXPECT_EQ(response.status, status);
      EXPECT_EQ(response.header("retry-after"), status == 429 || status == 503 ? "1" : "");
      EXPECT_EQ(response.header("x-exo-command-id").size(), 36U);
      EXPECT_EQ(Json::parse(response.body)["error"]["message"], "it failed");
    }
  }
}

TEST_F(ChatExchangeTest, ASilentPromptGetsHeadersAndCommentsAndItsFailureIsAnEvent) {
  serve_within(with_silence(milliseconds(30)));
  RawClient client = connect();
  client.send(chat_text("hi", kStreamed));
  EXPECT_EQ(client.read_head().status, 200);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read_chunk(), ": keep-alive\n\n");
  inference.send(0, protocol::ErrorChunk{{ErrorCode::kContextLength, "too long"}});
  const std::string rest = client.read_to_end();
  EXPECT_TRUE(rest.contains(
      R"(data: {"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}})"));
  EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(ChatExchangeTest, AFailureAmidAStreamIsAnEvent) {
  serve();
  RawClient client = connect();
  client.send(chat_text("hi", kStreamed));
  ASSERT_TRUE(inference.started(0));
  inference.send(0, token("Hi"));
  client.read_until("Hi");
  inference.send(0, protocol::ErrorChunk{{ErrorCode::kInternal, "the runner crashed"}});
  const std::string rest = client.read_to_end();
  EXPECT_TRUE(rest.contains(
      R"(data: {"error":{"message":"the runner crashed","type":"server_error","param":null,"code":null}})"));
  EXPECT_FALSE(rest.contains("finish_reason\":\"stop"));
  EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(ChatExchangeTest, WhatCannotRunIsRefusedBeforeItDoes) {
  serve();
  EXPECT_EQ(ask(request_text("POST", "/v1/chat/completions")).status, 400) << "no body";
  EXPECT_EQ(ask(request_text("POST", "/v1/chat/completions", "", "[]")).status, 400);
  const Response field = ask(chat_text("hi", R"(, "temperature": 9)"));
  EXPECT_EQ(field.status, 400);
  EXPECT_EQ(Json::parse(field.body)["error"]["param"], "temperature");
  for (const char* name : {"nobody", "m"}) {
    const Response unknown = ask(request_text(
        "POST", "/v1/chat/completions", "",
        fmt::format(R"({{"model": "{}", "messages": [{{"role": "user", "content": "x"}}]}})",
                    name)));
    EXPECT_EQ(unknown.status, 404) << name;
    EXPECT_EQ(Json::parse(unknown.body)["error"]["code"], "model_not_found");
    EXPECT_EQ(Json::parse(unknown.body)["error"]["param"], "model");
  }
  EXPECT_EQ(inference.count(), 0U);
}

TEST_F(ChatExchangeTest, AFullQueueIs429) {
  inference.refuses = Error{ErrorCode::kBusy, "the queue is full"};
  serve();
  const Response response = ask(chat_text("hi", kStreamed));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.header("retry-after"), "1");
  EXPECT_EQ(Json::parse(response.body)["error"]["type"], "rate_limit_exceeded");
}

TEST_F(ChatExchangeTest, TheContentTypeDoesNotMatterAndTheAliasesAreTheSame) {
  inference.echoes = true;
  serve();
  for (const char* path : {"/v1/chat/completions", "/chat/completions",
                           "/v1/chat/completions/?beta=true", "/ollama/v1/chat/completions"}) {
    const Response response =
        ask(request_text("POST", path, "Content-Type: text/plain\r\n", chat_body("hi")));
    EXPECT_EQ(response.status, 200) << path;
  }
}

TEST_F(ChatExchangeTest, TheCardFillsInWhatTheRequestLeavesOpen) {
  inference.known[0].model.card.sampling = {.temperature = 0.25, .top_p = 0.5};
  serve();
  RawClient client = connect();
  client.send(chat_text("hi", R"(, "top_p": 0.75)"));
  const auto request = inference.started(0);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->sampling.temperature, 0.25);
  EXPECT_EQ(request->sampling.top_p, 0.75);
  EXPECT_EQ(request->sampling.min_p, std::nullopt);
}

// In every stage of a generation, and however the client goes.
TEST_F(ChatExchangeTest, AClientThatGoesCancelsItsGeneration) {
  serve_within(with_silence(kNever));
  std::size_t index = 0;
  for (const char* streamed : {kStreamed, ""}) {
    for (const char* stage : {"waiting", "accepted", "decoding", "behind bytes", "half closed"}) {
      RawClient client = connect();
      client.send(chat_text("hi", streamed));
      ASSERT_TRUE(inference.started(index));
      if (stage != std::string_view("waiting"))
        inference.send(index, protocol::PrefillProgress{.processed_tokens = 0, .total_tokens = 3});
      if (stage == std::string_view("decoding")) inference.send(index, token("some text"));
      if (stage == std::string_view("behind bytes")) client.send(request_text("GET", "/health"));
      if (stage == std::string_view("half closed")) {
        client.end_sending();
      } else {
        client.close();
      }
      EXPECT_TRUE(inference.destroyed(index)) << stage << streamed;
      EXPECT_FALSE(inference.send(index++, token("more")));
    }
  }
}

TEST_F(ChatExchangeTest, AClientThatDoesNotReadIsCutOff) {
  Limits limits;
  limits.write_time = milliseconds(200);
  serve_within(limits);
  RawClient client = connect(/*receive_buffer=*/4096);
  client.send(chat_text("hi", kStreamed));
  ASSERT_TRUE(inference.started(0));
  for (int i = 0; i < 16; ++i) inference.send(0, token(std::string(1 << 20, 'x')));
  EXPECT_TRUE(inference.destroyed(0));
}

TEST_F(ChatExchangeTest, ARequestBehindAStreamIsNotAnswered) {
  serve();
  RawClient client = connect();
  client.send(chat_text("hi", kStreamed) + request_text("GET", "/health"));
  ASSERT_TRUE(inference.started(0));
  inference.send(0, protocol::FinishChunk{});
  EXPECT_TRUE(client.read_to_end().ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"))
      << "the headers said that the connection ends";
}

TEST_F(ChatExchangeTest, Http10StreamsHaveNoChunks) {
  inference.echoes = true;
  serve();
  RawClient client = connect();
  const std::string body = chat_body("hi", kStreamed);
  client.send(fmt::format("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}",
                          body.size(), body));
  const std::string reply = client.read_to_end();
  EXPECT_TRUE(reply.starts_with("HTTP/1.0 200 OK\r\n"));
  EXPECT_FALSE(to_lower_ascii(reply).contains("chunked"));
  EXPECT_TRUE(reply.ends_with("data: [DONE]\n\n"));
}

TEST_F(ChatExchangeTest, AnyIdOfACommandCancelsIt) {
  serve();
  RawClient client = connect();
  client.send(chat_text("hi", kStreamed));
  ASSERT_TRUE(inference.started(0));
  inference.send(0, token("Hi"));
  const std::string id = client.read_head().header("x-exo-command-id");
  for (const char* prefix : {"", "chatcmpl-", "cmpl-", "msg_", "resp_"}) {
    const Response response = ask(request_text("POST", fmt::format("/v1/cancel/{}{}", prefix, id)));
    EXPECT_EQ(response.status, 200) << prefix;
    EXPECT_EQ(Json::parse(response.body)["command_id"], id);
  }
  EXPECT_EQ(inference.cancelled_ids(), std::vector<std::string>(5, id));
  const Response unknown = ask(request_text("POST", "/v1/cancel/nothing"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(Json::parse(unknown.body)["error"]["code"], 404);
}

}  // namespace
}  // namespace exo::api
