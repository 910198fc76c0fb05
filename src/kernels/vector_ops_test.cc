// Every variant of every vector operation against its scalar reference.
#include "kernels/vector_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/test_vectors.h"

namespace exo::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Calls check(isa, n) for each available instruction set and length.
template <typename Check>
void for_each_isa_and_length(Check check) {
  for (const Isa isa : available_isas()) {
    for (const std::size_t n : kOddLengths) check(isa, n);
  }
}

TEST(RmsNorm, EveryVariantMatchesTheReferenceInPlaceToo) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    auto x = random_vector(n, 1, -3, 3);
    const auto w = random_vector(n, 2);
    std::vector<float> want(n);
    scalar::rms_norm(x.data(), w.data(), 1e-5F, want.data(), n);
    rms_norm.pick(isa)(x.data(), w.data(), 1e-5F, x.data(), n);
    const float bound = (static_cast<float>(n) / 2 + 6) * kUlp;
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(x[i], want[i], bound * std::abs(want[i])) << name(isa) << ", n = " << n;
    }
  });
}

TEST(RmsNorm, TheReferenceIsTheFormula) {
  const float x[] = {3, 4}, w[] = {1, -2};
  float y[2];
  scalar::rms_norm(x, w, 0.5F, y, 2);
  EXPECT_FLOAT_EQ(y[0], static_cast<float>(3 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(y[1], static_cast<float>(-8 / std::sqrt(13.0)));
}

TEST(Swiglu, EveryVariantMatchesTheReference) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    auto gate = random_vector(n, 3, -100, 30);
    const auto up = random_vector(n, 4, -5, 5);
    if (n > 6) gate[0] = 0, gate[1] = 1000, gate[2] = -1000, gate[3] = kNan, gate[4] = kInf;
    std::vector<float> want(n), got(n);
    scalar::swiglu(gate.data(), up.data(), want.data(), n);
    swiglu.pick(isa)(gate.data(), up.data(), got.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      if (std::isnan(want[i]) || std::isinf(want[i])) {
        ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << name(isa) << ", " << gate[i];
        continue;
      }
      ASSERT_NEAR(got[i], want[i], 3e-6F * std::abs(want[i]) + 1e-36F * std::abs(up[i]))
          << name(isa) << ", n = " << n << ", gate " << gate[i];
    }
  });
}

TEST(Swiglu, TheReferenceIsTheFormula) {
  const float gate[] = {1, 0}, up[] = {2, 7};
  float y[2];
  scalar::swiglu(gate, up, y, 2);
  EXPECT_FLOAT_EQ(y[0], 1.4621172F);  // 2·σ(1)
  EXPECT_EQ(y[1], 0);
}

TEST(Geglu, EveryVariantMatchesTheReference) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    auto gate = random_vector(n, 6, -9, 9);
    const auto up = random_vector(n, 7, -5, 5);
    if (n > 6) gate[0] = 0, gate[1] = 1000, gate[2] = -1000, gate[3] = kNan, gate[4] = kInf;
    std::vector<float> want(n), got(n);
    scalar::geglu(gate.data(), up.data(), want.data(), n);
    gated(Activation::kGelu, isa)(gate.data(), up.data(), got.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      if (std::isnan(want[i]) || std::isinf(want[i])) {
        ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << name(isa) << ", " << gate[i];
        continue;
      }
      const float z = gate[i], t = 1.5957691F * (z + 0.044715F * z * z * z);
      const float tolerance = 3e-6F + 4 * std::min(std::abs(t), 100.0F) * kUlp;
      ASSERT_NEAR(got[i], want[i], tolerance * std::abs(want[i]) + 1e-36F * std::abs(up[i]))
          << name(isa) << ", n = " << n << ", gate " << z;
    }
  });
}

TEST(Geglu, TheReferenceIsTheFormula) {
  const float gate[] = {1, -1, 0}, up[] = {2, 1, 7};
  float y[3];
  scalar::geglu(gate, up, y, 3);
  EXPECT_FLOAT_EQ(y[0], 1.6823840F);  // 2 · 0.8411920
  EXPECT_FLOAT_EQ(y[1], -0.15880801F);
  EXPECT_EQ(y[2], 0);
}

TEST(Softmax, EveryVariantMatchesTheReferenceAndSumsToOne) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    auto x = random_vector(n, 5, -20, 20);
    if (n > 8) x[n / 2] = -kInf;
    auto want = x;
    scalar::softmax(want.data(), n);
    softmax.pick(isa)(x.data(), n);
    const float bound = 3e-6F + (static_cast<float>(n) + 40) * kUlp;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(x[i], want[i], bound * want[i]) << name(isa) << ", n = " << n;
      sum += x[i];
    }
    if (n > 0) {
      EXPECT_NEAR(sum, 1, bound);
    }
    if (n > 8) {
      EXPECT_EQ(x[n / 2], 0);
    }
  });
}

TEST(Softmax, HugeLogitsNeitherOverflowNorVanish) {
  for (const Isa isa : available_isas()) {
    std::vector<float> x(33, 3e38F);
    softmax.pick(isa)(x.data(), x.size());
    for (const float p : x) EXPECT_NEAR(p, 1.0F / 33, 1e-6F) << name(isa);
  }
}

TEST(Softmax, ANanMakesEverythingNan) {
  for (const Isa isa : available_isas()) {
    for (const std::size_t at : {0, 5, 16, 19}) {
      std::vector<float> x(20, 1);
      x[at] = kNan;
      softmax.pick(isa)(x.data(), x.size());
      for (const float p : x) EXPECT_TRUE(std::isnan(p)) << name(isa) << ", " << at;
    }
  }
}

// What fused models' outliers look like: far beyond the others, and nowhere near overflow.
TEST(VectorOps, ActivationsOfTenThousandDoNotOverflow) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    std::vector<float> x(n), gate(n), up(n), ones(n, 1), y(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = i % 3 == 0 ? -1e4F : 1e4F;
      gate[i] = x[i];
      up[i] = i % 2 == 0 ? 1e4F : -1e4F;
    }
    rms_norm.pick(isa)(x.data(), ones.data(), 1e-6F, y.data(), n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], x[i] / 1e4F, 1e-4F) << name(isa);
    for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
      gated(activation, isa)(gate.data(), up.data(), y.data(), n);
      for (std::size_t i = 0; i < n; ++i)  // far out, both are the ramp
        ASSERT_EQ(y[i], gate[i] > 0 ? gate[i] * up[i] : 0) << name(isa) << ", n = " << n;
    }
    softmax.pick(isa)(x.data(), n);
    const auto largest = static_cast<float>(n - (n + 2) / 3);  // of +1e4 there are so many
    for (std::size_t i = 0; i < n && n > 1; ++i)
      ASSERT_NEAR(x[i], i % 3 == 0 ? 0 : 1 / largest, 1e-5F) << name(isa) << ", n = " << n;
  });
}

TEST(Add, EveryVariantIsExact) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    const auto x = random_vector(n, 6);
    auto want = random_vector(n, 7), got = want;
    scalar::add(x.data(), want.data(), n);
    add.pick(isa)(x.data(), got.data(), n);
    EXPECT_EQ(got, want) << name(isa) << ", n = " << n;
  });
}

TEST(Exponential, IsWithinTwoMillionthsOverItsWholeRange) {
  std::vector<float> x;
  for (float value = -87.3F; value < 88.7F; value += 0.0037F) x.push_back(value);
  std::vector<float> y(x.size());
  for (const Isa isa : available_isas()) {
    exponential.pick(isa)(x.data(), y.data(), x.size());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(double{x[i]});
      worst = std::max(worst, std::abs(y[i] - want) / want);
    }
    EXPECT_LE(worst, 2e-6) << name(isa);
  }
}

TEST(Exponential, KnowsItsLimits) {
  const std::vector<float> x = {-kInf, -1e30F, -104, 0, -0.0F, 88.8F, 1e30F, kInf, kNan};
  const std::vector<float> want = {0, 0, 0, 1, 1, kInf, kInf, kInf};
  for (const Isa isa : available_isas()) {
    std::vector<float> y(x.size());
    exponential.pick(isa)(x.data(), y.data(), x.size());
    EXPECT_TRUE(std::isnan(y.back())) << name(isa);
    y.pop_back();
    EXPECT_EQ(y, want) << name(isa);
  }
}

TEST(Conversions, OneNumberRoundsToNearestWithTiesToEven) {
  EXPECT_EQ(float_to_bf16(1), 0x3f80);
  EXPECT_EQ(float_to_bf16(1 + 0x1p-8F), 0x3f80);    // half way, down to even
  EXPECT_EQ(float_to_bf16(1 + 0x1.8p-7F), 0x3f82);  // half way, up to even
  EXPECT_EQ(float_to_bf16(1 + 0x1.01p-8F), 0x3f81);
  EXPECT_EQ(float_to_bf16(3.4e38F), 0x7f80);
  EXPECT_EQ(float_to_f16(1), 0x3c00);
  EXPECT_EQ(float_to_f16(1 + 0x1p-11F), 0x3c00);
  EXPECT_EQ(float_to_f16(1 + 0x1.8p-10F), 0x3c02);
  EXPECT_EQ(float_to_f16(65519), 0x7bff);
  EXPECT_EQ(float_to_f16(65520), 0x7c00);
  EXPECT_EQ(float_to_f16(-0x1p-24F), 0x8001);
  EXPECT_EQ(float_to_f16(0x1p-25F), 0x0000);  // half way, to even
  EXPECT_EQ(float_to_f16(0x1.8p-24F), 0x0002);
  EXPECT_EQ(float_to_f16(0x1.ffcp-15F), 0x0400);  // up into the normal numbers
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(kNan))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001)))));
}

TEST(Conversions, EveryHalfSurvivesTheWayThereAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(f16_to_float(half))) {
      ASSERT_EQ(float_to_f16(f16_to_float(half)), half);
    }
    if (!std::isnan(bf16_to_float(half))) {
      ASSERT_EQ(float_to_bf16(bf16_to_float(half)), half);
    }
  }
}

// Bits, since NaN differs from itself.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::ranges::transform(values, bits.begin(),
                         [](float v) { return std::bit_cast<std::uint32_t>(v); });
  return bits;
}

TEST(Conversions, EveryVariantWidensEveryHalfAlike) {
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (const auto* op : {&bf16_to_f32, &f16_to_f32}) {
    std::vector<float> want(halves.size()), got(halves.size());
    op->scalar(halves.data(), want.data(), halves.size());
    for (const Isa isa : available_isas()) {
      op->pick(isa)(halves.data(), got.data(), halves.size());
      EXPECT_EQ(bits_of(got), bits_of(want)) << name(isa);
    }
  }
}

TEST(Conversions, EveryVariantNarrowsAlike) {
  std::vector<float> x;  // all exponents, signs and rounding cases, infinities and NaNs among them
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 0x7ff1) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    x.push_back(std::bit_cast<float>((high << 16) | 0x8000U));
    x.push_back(std::bit_cast<float>((high << 16) | 0x1000U));
  }
  for (const auto* op : {&f32_to_bf16, &f32_to_f16}) {
    std::vector<std::uint16_t> want(x.size()), got(x.size());
    op->scalar(x.data(), want.data(), x.size());
    for (const Isa isa : available_isas()) {
      op->pick(isa)(x.data(), got.data(), x.size());
      EXPECT_EQ(got, want) << name(isa);
    }
  }
}

TEST(Conversions, OddLengthsWriteNothingBeyondTheEnd) {
  for_each_isa_and_length([](Isa isa, std::size_t n) {
    const auto x = random_vector(n, 8);
    std::vector<std::uint16_t> want(n + 1, 0xabcd), got(n + 1, 0xabcd);
    std::vector<float> wide(n + 1, 42);
    scalar::f32_to_bf16(x.data(), want.data(), n);
    f32_to_bf16.pick(isa)(x.data(), got.data(), n);
    EXPECT_EQ(got, want) << name(isa) << ", n = " << n;
    scalar::f32_to_f16(x.data(), want.data(), n);
    f32_to_f16.pick(isa)(x.data(), got.data(), n);
    EXPECT_EQ(got, want) << name(isa) << ", n = " << n;
    for (const auto* op : {&f16_to_f32, &bf16_to_f32}) {
      op->pick(isa)(got.data(), wide.data(), n);
      EXPECT_EQ(wide[n], 42) << name(isa) << ", n = " << n;
    }
  });
}

}  // namespace
}  // namespace exo::kernels
