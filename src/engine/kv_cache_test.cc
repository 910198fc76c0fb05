#include "engine/kv_cache.h"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace exo::engine {
namespace {

using kernels::FloatType;

TEST(KvCache, KeepsEveryHeadApartAndCountsWholeSteps) {
  KvCache cache({{.kv_heads = 2, .head_dim = 4}, {.kv_heads = 1, .head_dim = 8}}, FloatType::kF32,
                1000);
  EXPECT_EQ(cache.bytes_per_position(), 2U * 8 * 4 + 2U * 8 * 4);
  EXPECT_EQ(cache.bytes(), 0U);
  ASSERT_TRUE(cache.reserve(3));
  const auto first = cache.layer(0), second = cache.layer(1);
  // Every byte of both layers is writable and belongs to one of them only.
  const std::size_t bytes = 8 * 4 * first.capacity;
  std::memset(first.keys, 1, bytes);
  std::memset(first.values, 2, bytes);
  std::memset(second.keys, 3, bytes);
  std::memset(second.values, 4, bytes);
  EXPECT_EQ(static_cast<int>(first.keys[bytes - 1]), 1);
  EXPECT_EQ(static_cast<int>(first.values[0]), 2);
  EXPECT_EQ(static_cast<int>(second.keys[0]), 3);
  cache.advance(3);
  EXPECT_EQ(cache.length(), 3U);
  EXPECT_EQ(cache.bytes(), KvCache::kGrowth * cache.bytes_per_position());
}

TEST(KvCache, RefusesMoreThanTheContextAndStaysAsItWas) {
  KvCache cache({{.kv_heads = 1, .head_dim = 2}}, FloatType::kBf16, 10);
  ASSERT_TRUE(cache.reserve(10));
  cache.advance(10);
  for (const std::size_t count : {std::size_t{1}, ~std::size_t{0}}) {
    const auto refused = cache.reserve(count);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  }
  EXPECT_EQ(cache.length(), 10U);
}

TEST(KvCache, SaysWhenThereIsNoMemory) {
  KvCache cache({{.kv_heads = 1 << 14, .head_dim = 256}}, FloatType::kF32, std::size_t{1} << 32);
  const auto refused = cache.reserve((std::size_t{1} << 32) - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(cache.reserve(1));  // a shorter context can still be had
}

TEST(KvCache, TrimsAndNeverGrowsByTrimming) {
  KvCache cache({{.kv_heads = 1, .head_dim = 2}}, FloatType::kBf16, 100);
  ASSERT_TRUE(cache.reserve(50));
  cache.advance(50);
  ASSERT_TRUE(cache.trim(20));
  EXPECT_EQ(cache.length(), 20U);
  ASSERT_TRUE(cache.trim(70));
  EXPECT_EQ(cache.length(), 20U);
  EXPECT_TRUE(cache.reserve(80));
  EXPECT_FALSE(cache.reserve(81));
}

TEST(KvCache, ReturnsThePagesThatAWindowHasLeftBehind) {
  constexpr std::size_t kWindow = 300, kStep = KvCache::kGrowth;
  KvCache cache(
      {{.kv_heads = 2, .head_dim = 64, .window = kWindow}, {.kv_heads = 1, .head_dim = 64}},
      FloatType::kF32, 10000);
  const auto fill = [&](std::size_t count) {
    ASSERT_TRUE(cache.reserve(count));
    for (const std::size_t i : {0, 1}) {
      const auto view = cache.layer(i);
      for (std::size_t head = 0; head < view.kv_heads; ++head)
        std::memset(view.keys + (head * view.capacity + cache.length()) * 256, 7, count * 256);
    }
    cache.advance(count);
  };
  fill(kWindow + kStep - 2);
  EXPECT_EQ(cache.layer(0).keys[0], std::byte{7});  // the next query sees position kStep − 1
  ASSERT_TRUE(cache.trim(10));
  fill(kWindow + kStep - 10);
  const auto windowed = cache.layer(0), full = cache.layer(1);
  for (const std::size_t head : {0, 1}) {
    const std::byte* keys = windowed.keys + head * windowed.capacity * 256;
    EXPECT_EQ(keys[0], std::byte{0});
    EXPECT_EQ(keys[kStep * 256 - 1], std::byte{0});
    EXPECT_EQ(keys[kStep * 256], std::byte{7});
  }
  EXPECT_EQ(full.keys[0], std::byte{7});
  EXPECT_EQ(cache.bytes(), 3 * kStep * 512 + 2 * kStep * 1024);
  EXPECT_TRUE(cache.trim(kWindow + kStep - 1));
  EXPECT_EQ(cache.trim(kWindow + kStep - 2).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace exo::engine
