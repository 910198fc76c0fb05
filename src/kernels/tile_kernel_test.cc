#include "kernels/tile_kernel.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <tuple>
#include <vector>

#include "core/bytes.h"
#include "kernels/isa.h"
#include "kernels/test_vectors.h"

namespace exo::kernels {
namespace {

TEST(Quantize, VariantsAgreeWithTheReference) {
  for (const std::size_t n : {1, 31, 32, 33, 64, 100, 576}) {
    for (const std::size_t group : {16, 32, 64}) {
      const std::size_t padded = round_up<std::size_t>(n, group), groups = padded / group;
      auto x = random_vector(n, 30, -3, 3);
      if (n == 100) std::fill(x.begin(), x.begin() + 64, 0.0F);
      const auto run = [&](QuantizeFn* quantize) {
        std::vector<std::int8_t> q(padded, 99);
        std::vector<float> numbers(2 * groups);
        std::vector<std::int32_t> sums(groups);
        quantize(x.data(), n, padded, group,
                 {.q = q.data(),
                  .scale = numbers.data(),
                  .sum = numbers.data() + groups,
                  .code_sum = sums.data()});
        return std::tuple(q, numbers, sums);
      };
      const auto want = run(scalar::quantize_row);
      for (const Isa isa : available_isas()) {
        const Variants<QuantizeFn> variants{
            .scalar = scalar::quantize_row,
            EXO_X86(.avx2 = avx2::quantize_row, .avx512 = avx512::quantize_row)};
        EXPECT_EQ(run(variants.pick(isa)), want)
            << name(isa) << ", n = " << n << ", group " << group;
      }
    }
  }
}

}  // namespace
}  // namespace exo::kernels
