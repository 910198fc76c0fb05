// Packing, unpacking and multiplying against a reference that reads the rows as a file stores them.
#include "kernels/multiply.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "kernels/isa.h"
#include "kernels/pack.h"
#include "kernels/tile_kernel.h"
#include "kernels/tile_layout.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

using Kind = Encoding::Kind;

constexpr std::uint8_t kBits[] = {2, 3, 4, 5, 6, 8};
constexpr std::uint16_t kGroups[] = {32, 64, 128};

// A matrix as a file holds it, with the weights that the file's definition gives.
struct FileMatrix {
  RowLayout layout = RowLayout::kDense;
  Encoding encoding;
  std::size_t rows = 0, cols = 0;
  std::vector<std::byte> codes = {}, scales = {}, biases = {};
  std::vector<float> weights = {};  // f32[rows, cols]

  RowSource source() const {
    return {.layout = layout,
            .encoding = encoding,
            .rows = rows,
            .cols = cols,
            .codes = codes.data(),
            .scales = scales.empty() ? nullptr : scales.data(),
            .biases = biases.empty() ? nullptr : biases.data()};
  }
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  float normal() { return std::normal_distribution<float>()(engine_); }
  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(engine_); }

 private:
  std::mt19937 engine_;
};

// Appends `value` as `type` and gives back what was kept of it.
float append_number(std::vector<std::byte>& bytes, FloatType type, float value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + size_of(type));
  if (type == FloatType::kF32) {
    store(bytes.data() + at, value);
    return value;
  }
  const std::uint16_t bits = type == FloatType::kF16 ? float_to_f16(value) : float_to_bf16(value);
  store(bytes.data() + at, bits);
  return type == FloatType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
}

FileMatrix dense_matrix(FloatType type, std::size_t rows, std::size_t cols, unsigned seed) {
  FileMatrix matrix{
      .layout = RowLayout::kDense, .encoding = {.type = type}, .rows = rows, .cols = cols};
  Random random(seed);
  for (std::size_t i = 0; i < rows * cols; ++i) {
    matrix.weights.push_back(append_number(matrix.codes, type, random.normal() / 8));
  }
  return matrix;
}

FileMatrix stream_matrix(Encoding encoding, std::size_t rows, std::size_t cols, unsigned seed) {
  FileMatrix matrix{.layout = RowLayout::kStream, .encoding = encoding, .rows = rows, .cols = cols};
  Random random(seed);
  matrix.codes.resize(rows * cols * encoding.bits / 8);
  for (std::size_t row = 0; row < rows; ++row) {
    float scale = 0, bias = 0;
    for (std::size_t col = 0; col < cols; ++col) {
      if (col % encoding.group_size == 0) {
        scale = append_number(matrix.scales, encoding.type,
                              random.normal() / static_cast<float>(1U << encoding.bits));
        bias = append_number(matrix.biases, encoding.type, random.normal() / 4);
      }
      const unsigned code = random.below(1U << encoding.bits);
      const std::size_t bit = (row * cols + col) * encoding.bits;
      for (std::size_t b = 0; b < encoding.bits; ++b) {
        if ((code >> b & 1) != 0) matrix.codes[(bit + b) / 8] |= std::byte{1} << ((bit + b) % 8);
      }
      const float product = scale * static_cast<float>(code);
      matrix.weights.push_back(product + bias);
    }
  }
  return matrix;
}

FileMatrix block_matrix(RowLayout layout, std::size_t rows, std::size_t cols, unsigned seed) {
  const bool affine = layout == RowLayout::kQ4_1, wide = layout == RowLayout::kQ8_0;
  FileMatrix matrix{.layout = layout,
                    .encoding = {.kind = affine ? Kind::kAffine : Kind::kSymmetric,
                                 .type = FloatType::kF16,
                                 .bits = static_cast<std::uint8_t>(wide ? 8 : 4),
                                 .group_size = 32},
                    .rows = rows,
                    .cols = cols};
  Random random(seed);
  for (std::size_t block = 0; block < rows * cols / 32; ++block) {
    const float scale =
        append_number(matrix.codes, FloatType::kF16, random.normal() / (wide ? 256 : 16));
    const float bias =
        affine ? append_number(matrix.codes, FloatType::kF16, random.normal() / 4) : 0;
    std::vector<unsigned> bytes(wide ? 32 : 16);
    for (unsigned& byte : bytes) byte = random.below(256);
    for (std::size_t i = 0; i < 32; ++i) {
      const int code = wide     ? static_cast<std::int8_t>(bytes[i])
                       : affine ? static_cast<int>(bytes[i % 16] >> (4 * (i / 16)) & 15)
                                : static_cast<int>(bytes[i % 16] >> (4 * (i / 16)) & 15) - 8;
      const float product = scale * static_cast<float>(code);
      matrix.weights.push_back(affine ? product + bias : product);
    }
    for (const unsigned byte : bytes) matrix.codes.push_back(static_cast<std::byte>(byte));
  }
  return matrix;
}

// Every encoding, as makers of matrices.
struct Case {
  std::string name;
  std::size_t group;  // cols must be a multiple of it
  std::function<FileMatrix(std::size_t rows, std::size_t cols, unsigned seed)> make;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBf16}) {
    cases.push_back(
        {to_string(Encoding{.type = type}), 1,
         [=](std::size_t r, std::size_t c, unsigned s) { return dense_matrix(type, r, c, s); }});
    for (const std::uint8_t bits : kBits) {
      for (const std::uint16_t group : kGroups) {
        const Encoding encoding{
            .kind = Kind::kAffine, .type = type, .bits = bits, .group_size = group};
        cases.push_back({to_string(encoding), group, [=](std::size_t r, std::size_t c, unsigned s) {
                           return stream_matrix(encoding, r, c, s);
                         }});
      }
    }
  }
  for (const auto& [block_name, layout] :
       {std::pair("Q4_0", RowLayout::kQ4_0), std::pair("Q4_1", RowLayout::kQ4_1),
        std::pair("Q8_0", RowLayout::kQ8_0)}) {
    cases.push_back(
        {block_name, 32, [file_layout = layout](std::size_t r, std::size_t c, unsigned s) {
           return block_matrix(file_layout, r, c, s);
         }});
  }
  return cases;
}

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
  if (encoding.kind == Kind::kDense) return x;
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

TEST_P(Multiply, UnpacksEveryEncodingBitForBit) {
  for (const Case& c : all_cases()) {
    const std::size_t cols = c.group == 1 ? 77 : 5 * c.group;
    const FileMatrix file = c.make(19, cols, 1);
    const Matrix matrix = packed(file, pool_);
    std::vector<float> row(cols);
    for (std::size_t r = 0; r < file.rows; ++r) {
      unpack_row(matrix, 0, r, row.data());
      ASSERT_EQ(std::memcmp(row.data(), &file.weights[r * cols], cols * sizeof(float)), 0)
          << c.name << ", row " << r;
    }
  }
}

TEST_P(Multiply, MatchesTheReferenceInEveryEncodingAndShape) {
  for (const Case& c : all_cases()) {
    for (const auto& [rows, groups] :
         {std::pair(1, 1), std::pair(15, 2), std::pair(16, 3), std::pair(33, 9)}) {
      const std::size_t cols = c.group == 1 ? groups * 19 : groups * c.group;
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
    const std::size_t cols = c.group == 1 ? 576 : round_up<std::size_t>(576, c.group);
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
    const std::size_t cols = c.group == 1 ? 100 : 3 * c.group, rows = 70, count = 11;
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
    const std::size_t cols = c.group == 1 ? 64 : 2 * c.group, rows = 17;
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
  const FileMatrix a = block_matrix(RowLayout::kQ4_1, 33, cols, 10),
                   b = block_matrix(RowLayout::kQ4_1, 33, cols, 11);
  const FileMatrix other = block_matrix(RowLayout::kQ8_0, 20, cols, 12);
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
  multiply_swiglu(*pairs, prepared, activated.data(), 33, pool_);
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

TEST(Pack, FollowsTheRowMap) {
  ThreadPool pool({.threads = 2});
  const FileMatrix file = block_matrix(RowLayout::kQ4_1, 24, 64, 20);
  std::vector<std::uint32_t> map(24);
  for (std::size_t i = 0; i < 24; ++i) map[i] = static_cast<std::uint32_t>((i * 7) % 24);
  RowSource source = file.source();
  source.row_map = map;
  const auto matrix = pack({&source, 1}, Arrangement::kStacked, pool);
  ASSERT_TRUE(matrix);
  std::vector<float> row(64);
  for (std::size_t r = 0; r < 24; ++r) {
    unpack_row(*matrix, 0, r, row.data());
    EXPECT_EQ(std::memcmp(row.data(), &file.weights[map[r] * 64], 64 * sizeof(float)), 0) << r;
  }
}

TEST(Pack, TellsWhatItHasConsumedOnce) {
  ThreadPool pool({.threads = 2});
  const FileMatrix file = dense_matrix(FloatType::kF32, 5000, 64, 21);
  const RowSource source = file.source();
  std::vector<std::atomic<int>> seen(5000);
  ASSERT_TRUE(pack({&source, 1}, Arrangement::kStacked, pool,
                   [&](std::size_t, std::size_t begin, std::size_t end) {
                     for (std::size_t r = begin; r < end; ++r) ++seen[r];
                   }));
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(Pack, RefusesNumbersThatAreNotFinite) {
  ThreadPool pool({.threads = 1});
  FileMatrix dense = dense_matrix(FloatType::kBf16, 3, 8, 22);
  store(dense.codes.data() + 10, std::uint16_t{0x7fc0});  // NaN
  const RowSource with_nan = dense.source();
  EXPECT_EQ(pack({&with_nan, 1}, Arrangement::kStacked, pool).error().code,
            ErrorCode::kInvalidInput);
  FileMatrix blocks = block_matrix(RowLayout::kQ4_1, 3, 64, 23);
  store(blocks.codes.data() + 22, std::uint16_t{0x7c00});  // an infinite bias
  const RowSource with_infinity = blocks.source();
  EXPECT_EQ(pack({&with_infinity, 1}, Arrangement::kStacked, pool).error().code,
            ErrorCode::kInvalidInput);
}

// gguf.md 2.6: block byte k = (37k + 11) mod 256, then d = 0.09375 and m = 0.046875.
TEST(Pack, GivesTheCheckValuesOfGguf) {
  ThreadPool pool({.threads = 1});
  struct Check {
    RowLayout layout;
    std::size_t bytes;
    float first, second, middle, last;
    double sum;
  };
  for (const Check& check :
       {Check{RowLayout::kQ4_0, 18, -0.28125F, 0.1875F, -0.28125F, 0, -1.96875},
        Check{RowLayout::kQ4_1, 20, 1.453125F, 0.421875F, 0.890625F, 1.171875F, 24.46875},
        Check{RowLayout::kQ8_0, 34, 7.96875F, 11.4375F, -8.53125F, -4.5F, -16.5}}) {
    FileMatrix file = block_matrix(check.layout, 1, 32, 1);
    for (std::size_t k = 0; k < check.bytes; ++k)
      file.codes[k] = static_cast<std::byte>(37 * k + 11);
    store(file.codes.data(), std::uint16_t{0x2e00});
    if (check.layout == RowLayout::kQ4_1) store(file.codes.data() + 2, std::uint16_t{0x2a00});
    std::vector<float> y(32);
    unpack_row(packed(file, pool), 0, 0, y.data());
    EXPECT_EQ(y[0], check.first);
    EXPECT_EQ(y[1], check.second);
    EXPECT_EQ(y[16], check.middle);
    EXPECT_EQ(y[31], check.last);
    double sum = 0;
    for (const float value : y) sum += double{value};
    EXPECT_EQ(sum, check.sum);
  }
}

TEST(TileLayout, AddsNoBytesToWholeTiles) {
  for (const std::uint8_t bits : kBits) {
    const Encoding encoding{
        .kind = Kind::kAffine, .type = FloatType::kBf16, .bits = bits, .group_size = 64};
    EXPECT_EQ(tile_layout(encoding, 640, 16).tile_bytes, 16 * (640 * bits / 8 + 640 / 64 * 4))
        << int{bits};
  }
  const Encoding q8{.kind = Kind::kSymmetric, .type = FloatType::kF16, .bits = 8, .group_size = 32};
  EXPECT_EQ(tile_layout(q8, 576, 16).tile_bytes, 16 * 576 / 32 * 34U);
}

TEST(Quantize, VariantsAgreeWithTheReference) {
  for (const std::size_t n : {1, 31, 32, 33, 64, 100, 576}) {
    for (const std::size_t group : {32, 64}) {
      const std::size_t padded = round_up<std::size_t>(n, group), groups = padded / group;
      auto x = activations(1, n, 30);
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
