// The small headers of core: bytes, ids, strings, function_ref, queue, clock.
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/function_ref.h"
#include "core/id.h"
#include "core/queue.h"
#include "core/strings.h"

namespace exo {
namespace {

TEST(Bytes, ReadsOnlyWhatIsThere) {
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                        std::byte{5}};
  EXPECT_EQ(read_at<std::uint32_t>(bytes, 1), 0x05040302U);
  EXPECT_EQ(read_at<std::uint32_t>(bytes, 2), std::nullopt);
  EXPECT_EQ(read_at<std::uint8_t>(bytes, std::numeric_limits<std::size_t>::max()), std::nullopt);
}

TEST(Bytes, SizesDoNotOverflow) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(checked_add<std::uint64_t>(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add<std::uint64_t>(kMax, 0), kMax);
  EXPECT_EQ(checked_mul<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 32),
            std::nullopt);
  EXPECT_EQ(checked_mul<std::uint64_t>(6, 7), 42U);
  EXPECT_EQ(round_up<std::size_t>(33, 32), 64U);
  EXPECT_EQ(divide_up<std::size_t>(33, 32), 2U);
}

TEST(Id, UuidsHaveTheirFormAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = random_uuid();
    ASSERT_EQ(id.size(), 36U);
    EXPECT_EQ(id[14], '4') << id;
    EXPECT_NE(std::string_view("89ab").find(id[19]), std::string_view::npos) << id;
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos) << id;
    EXPECT_TRUE(seen.insert(id).second) << id;
  }
  EXPECT_EQ(random_hex(24).size(), 24U);
}

TEST(Strings, SplitTrimAndUnits) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(trim(" \t a b \n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(98'362'432), "98.4 MB");
  EXPECT_EQ(human_bytes(1'240'000'000), "1.24 GB");
}

int twice(FunctionRef<int(int)> f) { return f(1) + f(2); }

TEST(FunctionRef, CallsWhatItBorrows) {
  int calls = 0;
  EXPECT_EQ(twice([&](int x) {
              ++calls;
              return x * 10;
            }),
            30);
  EXPECT_EQ(calls, 2);
}

TEST(Queue, IsBoundedAndDrainsAfterClosing) {
  Queue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  queue.close();
  EXPECT_FALSE(queue.try_push(4));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(Queue, TimesOut) {
  Queue<int> queue(1);
  EXPECT_EQ(queue.pop_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(5)),
            std::nullopt);
}

TEST(Queue, HandsEverythingOverBetweenThreads) {
  Queue<int> queue(4);
  std::jthread producer([&] {
    for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(queue.push(i));
    queue.close();
  });
  int expected = 0;
  while (const auto item = queue.pop()) EXPECT_EQ(*item, expected++);
  EXPECT_EQ(expected, 10'000);
}

TEST(Clock, AManualOneMovesByHand) {
  ManualClock clock;
  const MonotonicTime before = clock.now();
  clock.advance(std::chrono::milliseconds(1500));
  EXPECT_DOUBLE_EQ(seconds_between(before, clock.now()), 1.5);
}

}  // namespace
}  // namespace exo
