// The summing loops against a plain sum, and that a measurement comes out at all.
#include "kernels/bandwidth.h"

#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "kernels/bandwidth_parts.h"

namespace exo::kernels {
namespace {

TEST(SumLines, EveryVariantReadsEveryWordOnce) {
  const Variants<SumLinesFn> sum_lines{
      .scalar = scalar::sum_lines, EXO_X86(.avx2 = avx2::sum_lines, .avx512 = avx512::sum_lines)};
  for (const std::size_t lines : {0, 1, 2, 7, 100}) {
    std::vector<std::uint64_t> words(lines * kLineBytes / sizeof(std::uint64_t));
    std::uint64_t state = 1, want = 0;
    for (auto& word : words)
      want += word = state = state * 6364136223846793005U + 1442695040888963407U;
    for (const Isa isa : available_isas()) {
      EXPECT_EQ(sum_lines.pick(isa)(words.data(), lines), want) << name(isa) << ", " << lines;
    }
  }
}

TEST(MeasureReadBandwidth, GivesAPlausibleNumber) {
  for (const std::size_t threads : {1, 3}) {
    ThreadPool pool({.threads = threads});
    const auto rate = measure_read_bandwidth(pool, std::size_t{8} << 20, 2);
    ASSERT_TRUE(rate);
    EXPECT_GT(*rate, 1e7);
    EXPECT_LT(*rate, 1e13);
  }
}

TEST(MeasureReadBandwidth, RefusesWhatCannotBeMeasured) {
  ThreadPool pool({.threads = 2});
  const auto none = measure_read_bandwidth(pool, 100);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidInput);
  const auto huge = measure_read_bandwidth(pool, std::size_t{1} << 60);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kNoSpace);
}

}  // namespace
}  // namespace exo::kernels
