// Frequencies against published values, rotation against its reference and its own laws.
#include "kernels/rope.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/test_vectors.h"

namespace exo::kernels {
namespace {

struct Value {
  std::size_t i;
  double frequency;
};

TEST(Frequencies, Llama3MatchesTheCheckValues) {  // models.md 2.3
  const auto f64 = llama3_frequencies(64, 500000, {.factor = 32});
  ASSERT_EQ(f64.size(), 32U);
  for (const auto& [i, want] :
       {Value{0, 1}, Value{1, 0.66360124}, Value{14, 3.2114460e-3}, Value{15, 1.2905479e-3},
        Value{16, 4.2955680e-4}, Value{17, 9.7082879e-5}, Value{18, 1.9461638e-5},
        Value{31, 9.4183067e-8}}) {
    EXPECT_NEAR(f64[i], want, 2e-7 * want) << i;
  }
  // f_30 as the formula gives it in f64 and f32 alike; the printed 1.3718979e-3 is off by 3e-6.
  const auto f128 = llama3_frequencies(128, 500000, {.factor = 8});
  for (const auto& [i, want] :
       {Value{28, 3.2114460e-3}, Value{29, 2.1665708e-3}, Value{30, 1.3718936e-3},
        Value{32, 5.2484616e-4}, Value{35, 9.5562124e-5}, Value{36, 7.7846553e-5}}) {
    EXPECT_NEAR(f128[i], want, 2e-7 * want) << i;
  }
}

TEST(Frequencies, DefaultIsAGeometricRow) {
  const auto f = default_frequencies(8, 10000);
  ASSERT_EQ(f.size(), 4U);
  EXPECT_FLOAT_EQ(f[0], 1);
  EXPECT_FLOAT_EQ(f[1], 0.1F);
  EXPECT_FLOAT_EQ(f[3], 0.001F);
  EXPECT_TRUE(default_frequencies(0, 10000).empty());
}

TEST(RopeAngles, KeepTheirAccuracyFarIntoAContext) {
  const std::vector<float> frequencies = {1, 0.66360124F};
  float cosines[2], sines[2];
  rope_angles(frequencies, 1000003, cosines, sines);
  for (int i : {0, 1}) {
    const long double angle = 1000003.0L * frequencies[i];
    EXPECT_NEAR(cosines[i], std::cos(angle), 1e-7L) << i;
    EXPECT_NEAR(sines[i], std::sin(angle), 1e-7L) << i;
  }
}

TEST(Rope, EveryVariantMatchesTheReferenceAndLeavesTheRestAlone) {
  constexpr std::size_t kHeads = 3;
  for (const Isa isa : available_isas()) {
    for (const RopePairs pairs : {RopePairs::kHalfSplit, RopePairs::kInterleaved}) {
      for (const std::size_t rotated : {0, 2, 6, 8, 16, 18, 32, 40, 64, 128}) {
        for (const std::size_t head_dim : {rotated, rotated + 1, rotated + 24}) {
          const auto angles = random_vector(rotated / 2, 1, -7, 7);
          std::vector<float> c(angles.size()), s(angles.size());
          rope_angles(angles, 1, c.data(), s.data());
          const auto x = random_vector(kHeads * head_dim, 2);
          auto want = x, got = x;
          scalar::rope(want.data(), kHeads, head_dim, rotated, c.data(), s.data(), pairs);
          rope.pick(isa)(got.data(), kHeads, head_dim, rotated, c.data(), s.data(), pairs);
          for (std::size_t i = 0; i < x.size(); ++i) {
            const float bound = i % head_dim < rotated ? 6 * kUlp : 0;  // |a|, |b| ≤ 1
            ASSERT_NEAR(got[i], want[i], bound) << name(isa) << ", " << rotated << ", " << head_dim;
          }
        }
      }
    }
  }
}

TEST(Rope, RotatesPairsOfEitherKindByTheirAngle) {
  const float c[] = {0, -1}, s[] = {1, 0};  // a quarter and a half turn
  std::vector<float> halves = {1, 2, 3, 4}, neighbours = {1, 2, 3, 4};
  scalar::rope(halves.data(), 1, 4, 4, c, s, RopePairs::kHalfSplit);
  scalar::rope(neighbours.data(), 1, 4, 4, c, s, RopePairs::kInterleaved);
  EXPECT_EQ(halves, (std::vector<float>{-3, -2, 1, -4}));
  EXPECT_EQ(neighbours, (std::vector<float>{-2, 1, -3, -4}));
}

TEST(Rope, AScoreDependsOnTheDistanceOfPositionsAlone) {
  const auto frequencies = llama3_frequencies(64, 500000, {.factor = 32});
  const auto q = random_vector(64, 1), k = random_vector(64, 2);
  const auto score = [&](std::size_t q_position, std::size_t k_position) {
    auto a = q, b = k;
    float c[32], s[32];
    rope_angles(frequencies, q_position, c, s);
    rope(a.data(), std::size_t{1}, std::size_t{64}, std::size_t{64}, c, s, RopePairs::kHalfSplit);
    rope_angles(frequencies, k_position, c, s);
    rope(b.data(), std::size_t{1}, std::size_t{64}, std::size_t{64}, c, s, RopePairs::kHalfSplit);
    double sum = 0;
    for (std::size_t i = 0; i < 64; ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  };
  EXPECT_NEAR(score(17, 5), score(100012, 100000), 1e-5);
  EXPECT_GT(std::abs(score(17, 5) - score(18, 5)), 1e-3);
}

}  // namespace
}  // namespace exo::kernels
