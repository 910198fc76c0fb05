#include "core/utf8.h"

#include <gtest/gtest.h>

namespace exo {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

TEST(Utf8, TellsValidFromInvalid) {
  for (const std::string_view text :
       {"", "abc", "ü", "模型", "👩‍👩‍👧", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_valid_utf8(text)) << text;
  for (const std::string_view text :
       {"\xff", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3", "a\x80"}) {
    EXPECT_FALSE(is_valid_utf8(text)) << text;
  }
}

TEST(Utf8, HoldsBackOnlyWhatMayStillBecomeACharacter) {
  const std::string text = "a👩z";
  for (std::size_t cut = 1; cut < 5; ++cut) {
    const Utf8Split split = split_utf8(std::string_view(text).substr(0, 1 + cut));
    EXPECT_EQ(split.emit, cut < 4 ? "a" : "a👩") << cut;
    EXPECT_EQ(split.pending, cut < 4 ? cut : 0) << cut;
  }
}

TEST(Utf8, ReplacesEachMaximalInvalidPartOnce) {
  EXPECT_EQ(split_utf8("\xF0\x9F\x91 x").emit, std::string(kReplacement) + " x");
  EXPECT_EQ(split_utf8("\xff\xfe").emit, std::string(kReplacement) + kReplacement);
  EXPECT_EQ(split_utf8("\xE0\x80").emit,
            std::string(kReplacement) + kReplacement);  // E0 needs A0..BF next
  EXPECT_EQ(replace_invalid_utf8("ok\xF0\x9F"), std::string("ok") + kReplacement);
}

}  // namespace
}  // namespace exo
