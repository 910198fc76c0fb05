#include "app/node_client.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(error_from_body(502, "<html>").message, "the node answered with HTTP status 502");
}

TEST(NodeClient, SaysThatNobodyAnswers) {
  NodeClient client("127.0.0.1", 1, "");
  const auto answer = client.get("/health");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace exo::app
