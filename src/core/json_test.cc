#include "core/json.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace exo
