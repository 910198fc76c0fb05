#include "core/result.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <map>

namespace exo {
namespace {

Result<int> positive(int value) {
  if (value <= 0) return fail(ErrorCode::kInvalidInput, "must be positive", "value");
  return value;
}

Result<int> sum(int a, int b) {
  EXO_TRY(const int x, positive(a));
  EXO_TRY(const int y, positive(b));
  EXO_TRY(positive(x + y));
  return x + y;
}

template <typename K, typename V>
Result<std::map<K, V>> empty_map(int, int) {
  return std::map<K, V>{};
}

Result<std::size_t> commas_everywhere() {
  EXO_TRY(const auto map, empty_map<int, int>(1, 2));
  return map.size();
}

TEST(Result, TryBindsTheValueOrReturnsTheError) {
  EXPECT_EQ(sum(1, 2), 3);
  ASSERT_FALSE(sum(1, -2));
  EXPECT_EQ(sum(1, -2).error().subject, "value");
  EXPECT_EQ(commas_everywhere(), 0U);
}

TEST(Result, CodesSurviveTheirNames) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(error_code_from(name(code)), code) << i;
  }
  EXPECT_EQ(error_code_from("nonsense"), ErrorCode::kInternal);
}

TEST(Result, ASentenceNamesItsSubjectOnce) {
  EXPECT_EQ(to_string({ErrorCode::kIo, "cannot read", "a.txt"}), "cannot read (a.txt)");
  EXPECT_EQ(to_string({ErrorCode::kIo, "cannot read a.txt", "a.txt"}), "cannot read a.txt");
  EXPECT_EQ(to_string({ErrorCode::kIo, "cannot read", ""}), "cannot read");
}

TEST(Result, ErrnoBecomesACode) {
  EXPECT_EQ(fail_errno(ENOSPC, "writing").error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(fail_errno(EROFS, "writing").error().code, ErrorCode::kPermission);
  EXPECT_EQ(fail_errno(ENOENT, "opening").error().message, "opening: No such file or directory");
}

}  // namespace
}  // namespace exo
