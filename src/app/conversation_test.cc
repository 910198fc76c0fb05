#include "app/conversation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace exo::app {
namespace {

TEST(Conversation, SendsTheSystemMessageAndTheHistoryInOrder) {
  Conversation chat({.model = "local/m", .system = "Be brief."});
  chat.add_question("One?");
  chat.add_answer("1");
  chat.add_question("Two?");
  const Json want = Json::parse(R"([{"role": "system", "content": "Be brief."},
                                    {"role": "user", "content": "One?"},
                                    {"role": "assistant", "content": "1"},
                                    {"role": "user", "content": "Two?"}])");
  EXPECT_EQ(chat.request()["messages"], want);
  EXPECT_EQ(chat.request()["model"], "local/m");
  EXPECT_EQ(chat.request()["stream"], true);
}

TEST(Conversation, SendsOnlyTheParametersThatWereGiven) {
  const Json plain = Conversation({.model = "m"}).request();
  for (const char* key : {"temperature", "top_p", "min_p", "top_k", "max_tokens", "seed", "stop"}) {
    EXPECT_FALSE(plain.contains(key)) << key;
  }
  const Json full =
      Conversation({.model = "m", .temperature = 0, .max_tokens = 5, .seed = 7}).request();
  EXPECT_EQ(full["temperature"], 0.0);
  EXPECT_EQ(full["max_tokens"], 5);
  EXPECT_EQ(full["seed"], 7);
}

TEST(Conversation, ForgetsAllButTheSystemMessage) {
  Conversation chat({.model = "m", .system = "s"});
  chat.add_question("a");
  chat.drop_question();
  EXPECT_EQ(chat.size(), 0u);
  chat.add_question("a");
  chat.add_answer("b");
  chat.drop_question();
  EXPECT_EQ(chat.size(), 2u) << "an answered question stays";
  chat.clear();
  EXPECT_EQ(chat.request()["messages"].size(), 1u);
}

TEST(LineKind, TellsCommandsFromQuestions) {
  EXPECT_EQ(kind_of_line("  "), LineKind::kNothing);
  EXPECT_EQ(kind_of_line(" /help "), LineKind::kHelp);
  EXPECT_EQ(kind_of_line("/clear"), LineKind::kClear);
  EXPECT_EQ(kind_of_line("/exit"), LineKind::kExit);
  EXPECT_EQ(kind_of_line("/cleer"), LineKind::kUnknownCommand);
  EXPECT_EQ(kind_of_line("/etc/hosts is what?"), LineKind::kQuestion);
  EXPECT_EQ(kind_of_line("1/2"), LineKind::kQuestion);
}

}  // namespace
}  // namespace exo::app
