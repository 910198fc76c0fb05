#include "core/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/cbor.h"

namespace exo {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, KeepsTheOrderOfKeysAndTheLastOfDuplicates) {
  const auto json = parse_json(R"({"z": 1, "a": 2, "m": {"y": 0, "b": 0}, "a": 3})");
  ASSERT_TRUE(json);
  EXPECT_EQ(dump_json(*json), R"({"z":1,"a":3,"m":{"y":0,"b":0}})");
}

TEST(Json, SaysWhereTextIsMalformed) {
  const auto json = parse_json("{\n  \"a\": 1,\n  oops\n}");
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(json.error().subject.substr(0, 6), "line 3");
}

TEST(Json, RefusesWhatIsNotOneText) {
  for (const std::string text :
       {"", " ", "{} {}", "{'a': 1}", "[1,]", "nul", "\"\\ud800\"", "\"\xff\"", "NaN", "01"}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
}

TEST(Json, StopsAtItsDepthInsteadOfRecursing) {
  EXPECT_TRUE(parse_json(nested(128)));
  EXPECT_FALSE(parse_json(nested(129)));
  EXPECT_FALSE(parse_json(nested(2'000'000)));
  EXPECT_TRUE(parse_json(R"("[[[[[[")", {.max_depth = 1}));  // brackets in text do not count
}

TEST(Json, AnObjectOfManyKeysIsReadInLinearTime) {
  // Looking every key up among all before it would take minutes here.
  constexpr int kKeys = 300'000;
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) text += fmt::format("\"{}\":{},", i, i);
  text += R"("5":"first","200000":"last","5":"again"})";
  const auto json = parse_json(text);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), std::size_t{kKeys});
  EXPECT_EQ((*json)["5"], "again");
  EXPECT_EQ((*json)["200000"], "last");
  EXPECT_EQ(std::prev(json->end()).key(), std::to_string(kKeys - 1));
}

TEST(Json, DumpsInvalidUtf8WithReplacement) {
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

TEST(Cbor, GoesBothWays) {
  const auto json = parse_json(R"({"z": [1, -2.5, null, true], "a": {"text": "ü"}})");
  const auto back = from_cbor(to_cbor(*json));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, *json);
}

TEST(Cbor, RefusesDamage) {
  auto bytes = to_cbor(Json::parse(R"({"list": [1, 2, 3], "text": "hello"})"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(from_cbor(std::span(bytes).first(size))) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(from_cbor(bytes));
  EXPECT_FALSE(from_cbor(std::vector<std::byte>(1'000'000, std::byte{0x81})));  // arrays in arrays
  const std::vector<std::byte> huge = {std::byte{0x9b}, std::byte{0x00}, std::byte{0xff},
                                       std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                       std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  EXPECT_FALSE(from_cbor(huge));  // claims 2⁵⁶ items: nothing is allocated for them
}

TEST(Cbor, RefusesStringsInChunks) {
  // The library recurses into chunks of chunks.
  for (const unsigned head : {0x5fU, 0x7fU})
    EXPECT_FALSE(from_cbor(std::vector<std::byte>(10'000'000, std::byte(head)))) << head;
  const std::vector<std::byte> text = {std::byte{0x62}, std::byte{0x7f}, std::byte{0x7f}};
  EXPECT_TRUE(from_cbor(text));  // the same byte inside of a text is none of the kind
}

}  // namespace
}  // namespace exo
