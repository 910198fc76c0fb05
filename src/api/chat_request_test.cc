#include "api/chat_request.h"

#include <gtest/gtest.h>
#include <string>

#include <nlohmann/json.hpp>

#include "api/http_error.h"

namespace exo::api {
namespace {

Json with(const std::string& field, const Json& value) {
  Json body = {{"model", "m"}, {"messages", Json::parse(R"([{"role": "user", "content": "hi"}])")}};
  body[field] = value;
  return body;
}

// Every field of api.md 5.1 with an effect changes the request.
TEST(ChatRequest, EveryFieldHasItsEffect) {
  const auto plain = parse_chat_request(with("user", "u"));
  ASSERT_TRUE(plain);
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"stream", true},
                                                           {"max_completion_tokens", 5},
                                                           {"max_tokens", 5.0},
                                                           {"temperature", 0.5},
                                                           {"top_p", 0.5},
                                                           {"top_k", 5},
                                                           {"min_p", 0.5},
                                                           {"presence_penalty", -1},
                                                           {"frequency_penalty", 1},
                                                           {"repetition_penalty", 1.1},
                                                           {"repetition_context_size", 64},
                                                           {"stop", "x"},
                                                           {"seed", 7},
                                                           {"logprobs", true},
                                                           {"logit_bias", {{"5", -100}}},
                                                           {"reasoning_effort", "low"},
                                                           {"enable_thinking", false},
                                                           {"chat_template_kwargs", {{"a", 1}}},
                                                           {"reasoning", {{"effort", "high"}}},
                                                           {"include_reasoning_logprobs", true}}) {
    const auto parsed = parse_chat_request(with(field, value));
    ASSERT_TRUE(parsed) << field << ": " << to_string(parsed.error());
    EXPECT_NE(parsed->request, plain->request) << field;
  }
  EXPECT_TRUE(parse_chat_request(with("stream_options", {{"include_usage", true}}))->include_usage);
}

TEST(ChatRequest, FieldsWithoutEffectAndNullsAreAccepted) {
  const auto plain = parse_chat_request(with("model", "m"));
  for (const char* field : {"user", "metadata", "store", "service_tier", "safety_identifier",
                            "prompt_cache_key", "prediction", "verbosity", "something_new"}) {
    EXPECT_EQ(parse_chat_request(with(field, "x"))->request, plain->request) << field;
  }
  for (const char* field :
       {"temperature", "tools", "stop", "n", "response_format", "stream_options", "logit_bias"}) {
    EXPECT_EQ(parse_chat_request(with(field, nullptr))->request, plain->request) << field;
  }
}

TEST(ChatRequest, NamesTheFieldThatIsWrongOrNotThereYet) {
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"model", 5},
           {"model", ""},
           {"model", std::string("a\0b", 3)},
           {"messages", Json::array()},
           {"messages", "hi"},
           {"stream", "true"},
           {"max_tokens", 0},
           {"max_tokens", 5.5},
           {"max_tokens", "5"},
           {"max_completion_tokens", -1},
           {"temperature", 2.1},
           {"temperature", true},
           {"top_p", 1.5},
           {"top_k", -2},
           {"min_p", -0.1},
           {"presence_penalty", 3},
           {"repetition_penalty", 0},
           {"repetition_context_size", -1},
           {"stop", 5},
           {"seed", "x"},
           {"logprobs", 1},
           {"top_logprobs", 2},
           {"logit_bias", {{"x", 1}}},
           {"logit_bias", {{"5", 101}}},
           {"n", 2},
           {"n", 17},
           {"tools", Json::parse(R"([{"type": "function"}])")},
           {"functions", Json::parse("[{}]")},
           {"tool_choice", "required"},
           {"response_format", {{"type", "json_object"}}},
           {"modalities", Json::parse(R"(["audio"])")},
           {"audio", Json::object()},
           {"reasoning_effort", "huge"},
           {"enable_thinking", 1},
           {"chat_template_kwargs", "x"},
           {"stream_options", 1},
           {"parallel_tool_calls", 1}}) {
    const auto parsed = parse_chat_request(with(field, value));
    ASSERT_FALSE(parsed) << field << " " << value;
    EXPECT_EQ(parsed.error().subject, field) << value;
    EXPECT_EQ(http_error(parsed.error()).status, 400);
  }
}

TEST(ChatRequest, MessagesAreMapped) {
  const auto parsed = parse_chat_request(with("messages", Json::parse(R"([
    {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "user", "content": {"type": "text", "text": "one part"}},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": ""},
    {"role": "assistant", "content": null}])")));
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  const auto& messages = parsed->request.messages;
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "a\nb");
  EXPECT_EQ(messages[1].content, "one part");
  EXPECT_EQ(messages[2].tool_calls[0].arguments, "{");
  EXPECT_EQ(messages[3].tool_call_id, "c1");
}

TEST(ChatRequest, WrongMessagesAreNamedByTheirPath) {
  for (
      const auto& [messages, path] : std::initializer_list<std::pair<const char*, const char*>>{
          {R"([{"role": "king", "content": "x"}])", "messages.0.role"},
          {R"([{"content": "x"}])", "messages.0.role"},
          {R"(["x"])", "messages.0"},
          {R"([{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "image_url"}]}])",
           "messages.1.content.0.type"},
          {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages.0.content.0.text"},
          {R"([{"role": "user", "content": 5}])", "messages.0.content"}}) {
    const auto parsed = parse_chat_request(with("messages", Json::parse(messages)));
    ASSERT_FALSE(parsed) << messages;
    EXPECT_EQ(parsed.error().subject, path);
  }
}

}  // namespace
}  // namespace exo::api
