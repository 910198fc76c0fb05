// Multiplying, in every encoding, against sums over the weights that the file formats define.
#include "kernels/multiply.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "kernels/isa.h"
#include "kernels/pack.h"
#include "kernels/test_matrices.h"
#include "kernels/tile_kernel.h"
#include "kernels/tile_layout.h"

namespace exo::kernels {
namespace {

using namespace testing_matrices;

std::vector<float> activations(std::size_t count, std::size_t cols, unsigned seed, float size = 1) {
  Random random(seed);
  std::vector<float> x(count * cols);
  for (float& value : x) value = random.normal() * size;
  return x;
}

Matrix packed(const FileMatrix& matrix, ThreadPool& pool) {
  const RowSource source = matrix.source();
  auto result = pack({&source, 1}, Arrangement::kStacked, pool);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

// What fast precision sees of x: scale·q per group of columns.
std::vector<float> as_quantized(const std::vector<float>& x, std::size_t cols,
                                const Encoding& encoding) {
  if (!has_integer_codes(encoding)) return x;
  const std::size_t group = activation_group(encoding), groups = divide_up(cols, group);
  std::vector<std::int8_t> q(groups * group);
  std::vector<float> scale(groups), sum(groups), result;
  std::vector<std::int32_t> code_sum(groups);
  for (std::size_t row = 0; row < x.size() / cols; ++row) {
    scalar::quantize_row(
        x.data() + row * cols, cols, q.size(), group,
        {.q = q.data(), .scale = scale.data(), .sum = sum.data(), .code_sum = code_sum.data()});
    for (std::size_t col = 0; col < cols; ++col)
      result.push_back(scale[col / group] * static_cast<float>(q[col]));
  }
  return result;
}

// Checks y[count, rows] against Σ w·x in f64, within `tolerance`·Σ|w·x| and what scale·code and
// bias may cancel.
void expect_products(const FileMatrix& matrix, const std::vector<float>& x,
                     const std::vector<float>& y, const std::string& what) {
  constexpr double kTolerance = 2e-5;
  const std::size_t count = x.size() / matrix.cols;
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t row = 0; row < matrix.rows; ++row) {
      double want = 0, size = 0;
      for (std::size_t col = 0; col < matrix.cols; ++col) {
        const double product =
            double{matrix.weights[row * matrix.cols + col]} * double{x[m * matrix.cols + col]};
        want += product;
        size += std::abs(product) + 0.25 * std::abs(double{x[m * matrix.cols + col]});
      }
      ASSERT_NEAR(y[m * matrix.rows + row], want, kTolerance * size + 1e-30)
          << what << ", row " << row << " of " << m;
    }
  }
}

class Multiply : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_TRUE(set_isa(GetParam())); }
  void TearDown() override { ASSERT_TRUE(set_isa(available_isas().back())); }
  ThreadPool pool_{{.threads = 2}};
};
INSTANTIATE_TEST_SUITE_P(Isas, Multiply, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Multiply, MatchesTheReferenceInEveryEncodingAndShape) {
  for (const Case& c : all_cases()) {
    for (const auto& [rows, groups] :
         {std::pair(1, 1), std::pair(15, 2), std::pair(16, 3), std::pair(33, 9)}) {
      const std::size_t cols = c.unit == 1 ? groups * 19 : groups * c.unit;
      const FileMatrix file = c.make(rows, cols, 2);
      const Matrix matrix = packed(file, pool_);
      for (const std::size_t count : {1, 2, 4, 7, 8, 13, 65}) {
        if (count == 65 && rows != 15) continue;
        const auto x = activations(count, cols, 3);
        for (const Precision precision : {Precision::kFast, Precision::kExact}) {
          Activations prepared;
          prepare(prepared, x.data(), count, cols, cols, matrix.encoding, precision, pool_);
          std::vector<float> y(count * rows, -1);
          multiply(matrix, prepared, y.data(), rows, pool_);
          const bool fast = precision == Precision::kFast;
          expect_products(file, fast ? as_quantized(x, cols, matrix.encoding) : x, y,
                          c.name + (fast ? ", fast, " : ", exact, ") + std::to_string(rows) + "x" +
                              std::to_string(cols));
        }
      }
    }
  }
}

TEST_P(Multiply, FastStaysCloseToTheRealProduct) {
  for (const Case& c : all_cases()) {
    const std::size_t cols = c.unit == 1 ? 576 : round_up<std::size_t>(576, c.unit);
    const FileMatrix file = c.make(64, cols, 4);
    const Matrix matrix = packed(file, pool_);
    const auto x = activations(1, cols, 5);
    Activations prepared;
    prepare(prepared, x.data(), 1, cols, cols, matrix.encoding, Precision::kFast, pool_);
    std::vector<float> y(64);
    multiply(matrix, prepared, y.data(), 64, pool_);
    double error = 0, size = 0;
    for (std::size_t row = 0; row < 64; ++row) {
      double want = 0;
      for (std::size_t col = 0; col < cols; ++col)
        want += double{file.weights[row * cols + col]} * double{x[col]};
      error += (y[row] - want) * (y[row] - want);
      size += want * want;
    }
    EXPECT_LE(std::sqrt(error / size), 0.01) << c.name;  // models.md 8: relative l2 of at most 1 %
  }
}

TEST_P(Multiply, ARowsResultDependsNeitherOnThreadsNorOnTheBatch) {
  for (const Case& c : all_cases()) {
    const std::size_t cols = c.unit == 1 ? 100 : 3 * c.unit, rows = 70, count = 11;
    const FileMatrix file = c.make(rows, cols, 6);
    const Matrix matrix = packed(file, pool_);
    const auto x = activations(count, cols, 7);
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      std::vector<float> first;
      for (const std::size_t threads : {1, 2, 3}) {
        ThreadPool pool({.threads = threads});
        Activations prepared;
        prepare(prepared, x.data(), count, cols, cols, matrix.encoding, precision, pool);
        std::vector<float> y(count * rows);
        multiply(matrix, prepared, y.data(), rows, pool);
        if (first.empty()) first = y;
        ASSERT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0)
            << c.name << ", threads " << threads;
      }
      for (std::size_t m = 0; m < count; ++m) {
        Activations prepared;
        prepare(prepared, x.data() + m * cols, 1, cols, cols, matrix.encoding, precision, pool_);
        std::vector<float> y(rows);
        multiply(matrix, prepared, y.data(), rows, pool_);
        ASSERT_EQ(std::memcmp(&first[m * rows], y.data(), rows * sizeof(float)), 0)
            << c.name << ", row " << m << " alone";
      }
    }
  }
}

TEST_P(Multiply, LargeActivationsDoNotOverflowAndNanIsNotLost) {
  for (const Case& c : all_cases()) {
    const std::size_t cols = c.unit == 1 ? 64 : 2 * c.unit, rows = 17;
    const FileMatrix file = c.make(rows, cols, 8);
    const Matrix matrix = packed(file, pool_);
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      std::vector<float> x(cols);
      for (std::size_t i = 0; i < cols; ++i) x[i] = i % 3 == 0 ? -1e4F : 1e4F;
      Activations prepared;
      prepare(prepared, x.data(), 1, cols, cols, matrix.encoding, precision, pool_);
      std::vector<float> y(rows);
      multiply(matrix, prepared, y.data(), rows, pool_);
      expect_products(file,
                      precision == Precision::kFast ? as_quantized(x, cols, matrix.encoding) : x, y,
                      c.name);
      for (const float poison :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        x[cols - 2] = poison;
        prepare(prepared, x.data(), 1, cols, cols, matrix.encoding, precision, pool_);
        multiply(matrix, prepared, y.data(), rows, pool_);
        for (const float value : y) EXPECT_FALSE(std::isfinite(value)) << c.name;
      }
    }
  }
}

TEST_P(Multiply, PartsSwigluAndAddition) {
  const std::size_t cols = 96, count = 9;
  const FileMatrix a = block_matrix("Q4_1", 33, cols, 10), b = block_matrix("Q4_1", 33, cols, 11);
  const FileMatrix other = block_matrix("Q8_0", 20, cols, 12);
  const auto x = activations(count, cols, 13);
  const std::vector<RowSource> sources = {a.source(), b.source()};
  auto stacked = pack(sources, Arrangement::kStacked, pool_),
       pairs = pack(sources, Arrangement::kInterleaved, pool_);
  ASSERT_TRUE(stacked && pairs);
  const Matrix third = packed(other, pool_);
  Activations prepared;
  prepare(prepared, x.data(), count, cols, cols, stacked->encoding, Precision::kExact, pool_);

  std::vector<float> ya(count * 33), yb(count * 40), yc(count * 20);
  float* const y_two[] = {ya.data(), yb.data()};
  float* const y_one[] = {yc.data()};
  const std::size_t strides[] = {33, 40}, stride_one[] = {20};
  const Product products[] = {{.matrix = &*stacked, .y = y_two, .stride = strides},
                              {.matrix = &third, .y = y_one, .stride = stride_one}};
  multiply(products, prepared, pool_);
  expect_products(a, x, ya, "first part");
  expect_products(other, x, yc, "second matrix");
  std::vector<float> yb_dense;
  for (std::size_t m = 0; m < count; ++m)
    yb_dense.insert(yb_dense.end(), &yb[m * 40], &yb[m * 40 + 33]);
  expect_products(b, x, yb_dense, "second part");

  std::vector<float> activated(count * 33);
  multiply_gated(*pairs, Activation::kSilu, prepared, activated.data(), 33, pool_);
  for (std::size_t i = 0; i < activated.size(); ++i) {
    const double gate = ya[i], want = gate / (1 + std::exp(-gate)) * double{yb_dense[i]};
    EXPECT_NEAR(activated[i], want, 1e-5 * std::abs(want) + 1e-6) << i;
  }
  std::vector<float> row(cols);
  unpack_row(*pairs, 1, 32, row.data());
  EXPECT_EQ(std::memcmp(row.data(), &b.weights[32 * cols], cols * sizeof(float)), 0);

  std::vector<float> sum(count * 20, 1.5F);
  multiply_add(third, prepared, sum.data(), 20, pool_);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_FLOAT_EQ(sum[i], 1.5F + yc[i]);
}

}  // namespace
}  // namespace exo::kernels
