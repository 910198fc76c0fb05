// Names, availability and choice of instruction sets.
#include "kernels/isa.h"

#include <gtest/gtest.h>

namespace exo::kernels {
namespace {

TEST(Isa, NamesAndTextsAreInverse) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    const auto back = isa_from(name(isa));
    ASSERT_TRUE(back) << name(isa);
    EXPECT_EQ(*back, isa);
  }
}

TEST(Isa, RefusesAnUnknownNameWithTheListOfChoices) {
  for (const std::string_view text : {"", "sse", "AVX2", "avx512 "}) {
    const auto isa = isa_from(text);
    ASSERT_FALSE(isa) << text;
    EXPECT_EQ(isa.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(isa.error().message.find("avx512bf16"), std::string::npos);
    EXPECT_EQ(isa.error().subject, text);
  }
}

TEST(Isa, AvailableOnesRiseFromScalarWithoutGaps) {
  const auto isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  for (std::size_t i = 0; i < isas.size(); ++i) EXPECT_EQ(isas[i], static_cast<Isa>(i));
}

TEST(Isa, TheWidestIsInUseUntilAnotherIsSet) {
  const auto isas = available_isas();
  EXPECT_EQ(active_isa(), isas.back());
  for (const Isa isa : isas) {  // ends with the widest again
    ASSERT_TRUE(set_isa(isa));
    EXPECT_EQ(active_isa(), isa);
  }
}

TEST(Isa, RefusesWhatTheProcessorLacks) {
  const auto isas = available_isas();
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (isa <= isas.back()) continue;
    const auto set = set_isa(isa);
    ASSERT_FALSE(set) << name(isa);
    EXPECT_EQ(set.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(active_isa(), isas.back());
  }
}

int scalar_answer(int x) { return x; }
int avx2_answer(int x) { return x + 2; }
int avx512_answer(int x) { return x + 512; }

TEST(Variants, AMissingOneIsStoodInForByTheNextNarrower) {
  constexpr Variants<int(int)> both{.scalar = scalar_answer, .avx2 = avx2_answer};
  EXPECT_EQ(both.pick(Isa::kScalar)(1), 1);
  EXPECT_EQ(both.pick(Isa::kAvx2)(1), 3);
  EXPECT_EQ(both.pick(Isa::kAvx512)(1), 3);
  EXPECT_EQ(both.pick(Isa::kAvx512Bf16)(1), 3);
  constexpr Variants<int(int)> wide{.scalar = scalar_answer, .avx512 = avx512_answer};
  EXPECT_EQ(wide.pick(Isa::kAvx2)(1), 1);
  EXPECT_EQ(wide.pick(Isa::kAvx512Bf16)(1), 513);
  const Variants<int(int)> one{.scalar = scalar_answer};
  EXPECT_EQ(one(7), 7);
}

}  // namespace
}  // namespace exo::kernels
