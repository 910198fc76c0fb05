#include "app/sse.h"

#include <gtest/gtest.h>

namespace exo::app {
namespace {

using Events = std::vector<std::string>;

TEST(SseParser, GivesTheDataOfEachEvent) {
  SseParser parser;
  EXPECT_EQ(parser.push("data: {\"a\": 1}\n\ndata: [DONE]\n\n"), (Events{"{\"a\": 1}", "[DONE]"}));
}

TEST(SseParser, WaitsForTheRestOfAnEventWhereverItIsCut) {
  const std::string stream =
      "event: x\r\ndata: one\r\ndata:two\r\n\r\n: keep-alive\n\ndata: three\n\n";
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    SseParser parser;
    Events events = parser.push(stream.substr(0, cut));
    for (std::string& event : parser.push(stream.substr(cut))) events.push_back(std::move(event));
    EXPECT_EQ(events, (Events{"one\ntwo", "three"})) << "cut at " << cut;
  }
}

TEST(SseParser, CommentsAreNoEvents) {
  SseParser parser;
  EXPECT_EQ(parser.push(": ping\n\n\n\n"), Events{});
}

}  // namespace
}  // namespace exo::app
