#include "api/chat_response.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace exo::api {
namespace {

using protocol::FinishChunk;
using protocol::TokenChunk;

ChatHeader header(bool logprobs = false, bool include_usage = false) {
  return {.command = {"c"},
          .model = "org/m",
          .created = 1700000000,
          .logprobs = logprobs,
          .include_usage = include_usage};
}

// The JSON of each data line but [DONE].
std::vector<Json> data_of(const std::string& text) {
  std::vector<Json> events;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const std::string event = text.substr(begin, end - begin);
    EXPECT_EQ(event.find('\n'), std::string::npos) << "one line an event";
    if (event.starts_with("data: {")) events.push_back(Json::parse(event.substr(6)));
  }
  EXPECT_EQ(begin, text.size());
  return events;
}

std::string whole_stream(ChatHeader with, const std::vector<protocol::Chunk>& chunks) {
  ChatStream stream(std::move(with));
  std::string text;
  for (const protocol::Chunk& chunk : chunks) text += stream.events(chunk);
  return text;
}

TEST(ChatStream, RoleThenTextThenReason) {
  const std::string text = whole_stream(
      header(), {protocol::PrefillProgress{}, TokenChunk{.text = "Thinks", .is_thinking = true},
                 TokenChunk{.text = ""}, TokenChunk{.text = "Hi"}, FinishChunk{}});
  EXPECT_TRUE(text.starts_with(": prefill_progress ")) << "progress is before the reply";
  const auto events = data_of(text);
  ASSERT_EQ(events.size(), 4U) << "an empty delta is no event";
  EXPECT_EQ(events[0]["choices"][0]["delta"], Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(events[1]["choices"][0]["delta"], Json::parse(R"({"reasoning_content":"Thinks"})"));
  EXPECT_EQ(events[2]["choices"][0]["delta"], Json::parse(R"({"content":"Hi"})"));
  EXPECT_EQ(events[3]["choices"][0]["delta"], Json::object());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["id"], "chatcmpl-c");
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["created"], 1700000000);
    EXPECT_EQ(events[i]["model"], "org/m");
    EXPECT_EQ(events[i]["choices"][0]["logprobs"], nullptr);
    EXPECT_EQ(events[i]["choices"][0]["finish_reason"], i == 3 ? Json("stop") : Json(nullptr));
    EXPECT_FALSE(events[i].contains("usage"));
  }
  EXPECT_TRUE(text.ends_with("\n\ndata: [DONE]\n\n"));
  EXPECT_LT(text.find("finish_reason\":\"stop"), text.find(": generation_stats {"));
}

TEST(ChatStream, AnEmptyReplyHasItsRoleToo) {
  const auto events = data_of(whole_stream(header(), {FinishChunk{}}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
}

TEST(ChatStream, UsageIsTheLastEventAndNullBefore) {
  const auto events = data_of(whole_stream(
      header(/*logprobs=*/false, /*include_usage=*/true),
      {TokenChunk{.text = "Hi"},
       FinishChunk{.usage = {.prompt_tokens = 10, .completion_tokens = 2, .cached_tokens = 4}}}));
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(events[i].contains("usage"));
    EXPECT_EQ(events[i]["usage"], nullptr);
  }
  EXPECT_EQ(events[3]["choices"], Json::array());
  EXPECT_EQ(events[3]["usage"]["total_tokens"], 12);
  EXPECT_EQ(events[3]["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(ChatStream, AFailureIsAnErrorAndTheEnd) {
  EXPECT_EQ(whole_stream(header(), {protocol::ErrorChunk{{ErrorCode::kInternal, "it broke"}}}),
            "data: {\"error\":{\"message\":\"it broke\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":null}}\n\ndata: [DONE]\n\n");
}

TEST(ChatStream, LogprobsComeWithTheirTextOrWithoutOne) {
  const TokenChunk half{
      .text = "",
      .logprobs = {{.chosen = {.token = "\xef\xbf\xbd", .bytes = "\xc3", .logprob = -1},
                    .top = {{.token = "a", .bytes = "a", .logprob = -2},
                            {.token = "b", .bytes = "b", .logprob = std::nan("")}}}}};
  const auto events = data_of(whole_stream(header(/*logprobs=*/true), {half}));
  ASSERT_EQ(events.size(), 2U) << "an empty delta that carries logprobs is an event";
  const Json& entry = events[1]["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["bytes"], Json::parse("[195]"));
  EXPECT_EQ(entry["top_logprobs"].size(), 1U) << "what is no number is left out";
  const TokenChunk impossible{
      .text = "x", .logprobs = {{.chosen = {.token = "x", .bytes = "x", .logprob = -INFINITY}}}};
  EXPECT_EQ(
      data_of(whole_stream(header(/*logprobs=*/true),
                           {impossible}))[1]["choices"][0]["logprobs"]["content"][0]["logprob"],
      -9999);
}

TEST(ChatReply, HasAllThatOpenAIsHas) {
  ChatReply reply(header());
  reply.add({.text = "Thinks", .is_thinking = true});
  reply.add({.text = "Hel"});
  reply.add({.text = "lo"});
  const Json body =
      reply.body({.reason = protocol::FinishReason::kLength,
                  .usage = {.prompt_tokens = 15, .completion_tokens = 8, .reasoning_tokens = 1}});
  EXPECT_EQ(body, Json::parse(R"({
    "id":"chatcmpl-c","object":"chat.completion","created":1700000000,"model":"org/m",
    "system_fingerprint":"fp_exo","service_tier":"default",
    "choices":[{"index":0,"finish_reason":"length","logprobs":null,
      "message":{"role":"assistant","content":"Hello","refusal":null,"annotations":[],
                 "reasoning_content":"Thinks"}}],
    "usage":{"prompt_tokens":15,"completion_tokens":8,"total_tokens":23,
      "prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},
      "completion_tokens_details":{"reasoning_tokens":1,"audio_tokens":0,
        "accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}})"));
  EXPECT_FALSE(ChatReply(header()).body({})["choices"][0]["message"].contains("reasoning_content"));
}

}  // namespace
}  // namespace exo::api
