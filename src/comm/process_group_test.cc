#include "comm/process_group.h"

#include <bit>
#include <chrono>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <random>

#include "comm/delayed_channel.h"
#include "comm/shared_memory.h"
#include "comm/test_groups.h"

namespace exo::comm {
namespace {

using std::chrono::milliseconds;

constexpr TestTransport kTransports[] = {TestTransport::kSharedMemory, TestTransport::kSealedTcp,
                                         TestTransport::kPlainTcp};

class Groups : public testing::TestWithParam<std::tuple<TestTransport, std::size_t>> {
 protected:
  void run(const std::function<void(ProcessGroup&)>& work) {
    run_ranks(std::get<1>(GetParam()), std::get<0>(GetParam()), work);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Groups,
                         testing::Combine(testing::ValuesIn(kTransports),
                                          testing::Values(1, 2, 3, 4)),
                         [](const auto& info) {
                           std::string name = to_string(std::get<0>(info.param)) + " of " +
                                              std::to_string(std::get<1>(info.param));
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

std::vector<float> values_of(std::size_t rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank * 7919 + count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_P(Groups, AllReduceSumsInTheOrderOfTheRanks) {
  run([](ProcessGroup& group) {
    for (const std::size_t count : {1, 5, 2048, 16384, 16385, 300'001}) {
      std::vector<float> sum = values_of(0, count);
      for (std::size_t rank = 1; rank < group.size(); ++rank) {
        const std::vector<float> more = values_of(rank, count);
        for (std::size_t i = 0; i < count; ++i) sum[i] += more[i];
      }
      std::vector<float> values = values_of(group.rank(), count);
      const auto done = group.all_reduce(values);
      ASSERT_TRUE(done) << to_string(done.error());
      ASSERT_EQ(values, sum) << count;  // bit for bit
    }
  });
}

TEST_P(Groups, GatherBringsEveryPart) {
  run([](ProcessGroup& group) {
    std::vector<std::size_t> sizes;
    for (std::size_t rank = 0; rank < group.size(); ++rank) sizes.push_back(1000 * rank + 3);
    const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    std::vector<std::byte> want(total), all(total);
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < group.size(); at += sizes[rank++])
      std::fill_n(want.begin() + at, sizes[rank], std::byte(rank + 1));
    const auto own_part = [&](std::vector<std::byte>& bytes) {
      const std::size_t begin =
          std::accumulate(sizes.begin(), sizes.begin() + group.rank(), std::size_t{0});
      std::fill_n(bytes.begin() + begin, sizes[group.rank()], std::byte(group.rank() + 1));
    };
    own_part(all);
    ASSERT_TRUE(group.all_gather(all, sizes));
    EXPECT_EQ(all, want);
    std::vector<std::byte> at_root(total);
    own_part(at_root);
    ASSERT_TRUE(group.gather(group.size() - 1, at_root, sizes));
    if (group.rank() == group.size() - 1) EXPECT_EQ(at_root, want);
  });
}

TEST_P(Groups, BroadcastAndPointToPointKeepTheirOrder) {
  run([](ProcessGroup& group) {
    const std::size_t last = group.size() - 1;
    for (int round = 0; round < 50; ++round) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(round) * 997 + 1);
      if (group.rank() == last) std::ranges::fill(bytes, static_cast<std::byte>(round));
      ASSERT_TRUE(group.broadcast(last, bytes));
      EXPECT_TRUE(std::ranges::all_of(
          bytes, [&](std::byte b) { return b == static_cast<std::byte>(round); }));
      if (last == 0) continue;
      // Round the ring.
      const std::size_t next = (group.rank() + 1) % group.size(),
                        previous = (group.rank() + last) % group.size();
      auto token = static_cast<std::byte>(round);
      if (group.rank() == 0) {
        ASSERT_TRUE(group.send(next, std::span(&token, 1)));
        ASSERT_TRUE(group.receive(previous, std::span(&token, 1)));
        EXPECT_EQ(std::to_integer<int>(token), round + static_cast<int>(last));
      } else {
        ASSERT_TRUE(group.receive(previous, std::span(&token, 1)));
        token = static_cast<std::byte>(std::to_integer<int>(token) + 1);
        ASSERT_TRUE(group.send(next, std::span(&token, 1)));
      }
    }
    ASSERT_TRUE(group.barrier());
  });
}

TEST_P(Groups, SubgroupsWorkInTurnsWithTheWhole) {
  run([](ProcessGroup& group) {
    std::vector<std::size_t> ranks;  // those of the same parity, backwards
    for (std::size_t rank = group.size(); rank-- > 0;)
      if (rank % 2 == group.rank() % 2) ranks.push_back(rank);
    ProcessGroup part = group.subgroup(ranks);
    EXPECT_EQ(part.size(), ranks.size());
    EXPECT_EQ(ranks[part.rank()], group.rank());
    for (int round = 0; round < 10; ++round) {
      float value = static_cast<float>(group.rank() + 1);
      ASSERT_TRUE(part.all_reduce(std::span(&value, 1)));
      float sum = 0;
      for (const std::size_t rank : ranks) sum += static_cast<float>(rank + 1);
      EXPECT_EQ(value, sum);
      ASSERT_TRUE(group.barrier());
    }
  });
}

TEST_P(Groups, AWaitingRankSleeps) {
  run([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const auto cpu = [] {
      timespec used{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
    };
    const double before = cpu();
    if (group.rank() == 0) std::this_thread::sleep_for(milliseconds(200));
    ASSERT_TRUE(group.barrier());
    EXPECT_LT(cpu() - before, 0.1);
  });
}

TEST_P(Groups, ARankThatLeavesEndsTheGroupOfTheOthers) {
  run([](ProcessGroup& group) {
    if (group.size() == 1) return;
    ASSERT_TRUE(group.barrier());
    if (group.rank() == 0) return;  // and its channels close
    const auto started = std::chrono::steady_clock::now();
    std::vector<float> values(100'000);
    const auto result = group.all_reduce(values);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable) << to_string(result.error());
    EXPECT_TRUE(result.error().subject.starts_with("rank ")) << result.error().subject;
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(1));
    EXPECT_EQ(group.barrier().error(), result.error());  // for good
  });
}

TEST_P(Groups, AbortEndsAWait) {
  run([](ProcessGroup& group) {
    if (group.size() == 1) return;
    if (group.rank() != 0) {
      std::byte never;
      EXPECT_FALSE(group.receive(0, std::span(&never, 1)));
      return;
    }
    std::jthread other([&group] {
      std::this_thread::sleep_for(milliseconds(50));
      group.abort();
    });
    std::byte never;
    const auto result = group.receive(1, std::span(&never, 1));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  });
}

TEST(DelayedChannels, DeliverLaterAndInOrder) {
  auto [first, second] = shared_memory_pair().value();
  constexpr std::chrono::microseconds kDelay{3000};
  const auto group_of = [&](std::size_t rank, std::unique_ptr<Channel> channel) {
    std::vector<std::unique_ptr<Channel>> channels(2);
    channels[1 - rank] = delay(std::move(channel), kDelay).value();
    return ProcessGroup::make(rank, std::move(channels)).value();
  };
  std::jthread other([&, channel = std::move(second)]() mutable {
    ProcessGroup group = group_of(1, std::move(channel));
    for (int i = 0; i < 20; ++i) {
      std::vector<float> values(40'000, 2);
      ASSERT_TRUE(group.all_reduce(values));
    }
  });
  ProcessGroup group = group_of(0, std::move(first));
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(40'000, 1);
    ASSERT_TRUE(group.all_reduce(values));
    EXPECT_EQ(values.front(), 3);
    EXPECT_EQ(values.back(), 3);
  }
  // Two exchanges, as it is more than 64 KiB.
  EXPECT_GE(std::chrono::steady_clock::now() - started, 20 * 2 * kDelay);
}

}  // namespace
}  // namespace exo::comm
