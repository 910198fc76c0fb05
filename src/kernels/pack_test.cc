// Packing and unpacking, bit for bit, against the weights that the file formats define.
#include "kernels/pack.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "kernels/isa.h"
#include "kernels/test_matrices.h"
#include "kernels/test_vectors.h"

namespace exo::kernels {
namespace {

using namespace testing_matrices;

Matrix packed(const FileMatrix& matrix, ThreadPool& pool) {
  const RowSource source = matrix.source();
  auto result = pack({&source, 1}, Arrangement::kStacked, pool);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

TEST(Pack, UnpacksEveryEncodingBitForBit) {
  ThreadPool pool({.threads = 2});
  for (const Isa isa : available_isas()) {
    const UseIsa use(isa);
    for (const Case& c : all_cases()) {
      const std::size_t cols = c.unit == 1 ? 77 : 5 * c.unit;
      const FileMatrix file = c.make(19, cols, 1);
      const Matrix matrix = packed(file, pool);
      std::vector<float> row(cols);
      for (std::size_t r = 0; r < file.rows; ++r) {
        unpack_row(matrix, 0, r, row.data());
        // By value: E2M1 has a negative zero, and tiles only one zero.
        ASSERT_TRUE(std::equal(row.begin(), row.end(), &file.weights[r * cols]))
            << c.name << ", row " << r << ", " << name(isa);
      }
    }
  }
}

TEST(Pack, FollowsTheRowMap) {
  ThreadPool pool({.threads = 2});
  const FileMatrix file = block_matrix("Q4_1", 24, 64, 20);
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
  FileMatrix blocks = block_matrix("Q4_1", 3, 64, 23);
  store(blocks.codes.data() + 22, std::uint16_t{0x7c00});  // an infinite bias
  const RowSource with_infinity = blocks.source();
  EXPECT_EQ(pack({&with_infinity, 1}, Arrangement::kStacked, pool).error().code,
            ErrorCode::kInvalidInput);
}

// gguf.md 2.6: block byte k = (37k + 11) mod 256, then d = 0.09375 and m or dmin = 0.046875.
TEST(Pack, GivesTheCheckValuesOfGguf) {
  ThreadPool pool({.threads = 1});
  struct Check {
    std::string_view name;
    float first, second, middle, last;
    double sum, squares;
  };
  for (const Check& check : {
           Check{"Q4_0", -0.28125F, 0.1875F, -0.28125F, 0, -1.96875, 5.6689453125},
           Check{"Q4_1", 1.453125F, 0.421875F, 0.890625F, 1.171875F, 24.46875, 24.43359375},
           Check{"Q5_0", 0.84375F, -0.1875F, 1.3125F, 0.09375F, 1.40625, 23.0888671875},
           Check{"Q5_1", 1.828125F, 2.296875F, 1.828125F, 0.515625F, 48.84375, 99.298828125},
           Check{"Q8_0", 7.96875F, 11.4375F, -8.53125F, -4.5F, -16.5, 1672.171875},
           Check{"Q2_K", 3.09375F, 0, 0.703125F, 0.421875F, 193.03125, 478.79296875},
           Check{"Q3_K", 7.59375F, -10.125F, 0.1875F, 3.9375F, 89.8125, 4998.392578125},
           Check{"Q4_K", 29.578125F, -2.390625F, 39.65625F, 4.546875F, 5103.75, 212389.62890625},
           Check{"Q5_K", 76.078125F, -2.390625F, 98.15625F, 10.171875F, 10895.25, 903768.92578125},
           Check{"Q6_K", -134.15625F, 159, -32.90625F, -5.625F, 432.375, 4165139.00390625},
           Check{"IQ4_NL", -3.28125F, 2.34375F, -3.28125F, 0.09375F, -24.09375, 1180.3095703125},
           Check{"IQ4_XS", 6.09375F, -0.09375F, -54.84375F, -1.5F, -1031.71875, 2135666.2236328125},
           Check{"MXFP4", 0, 0.09375F, 0.046875F, 0.09375F, 0.390625, 0.277587890625},
           Check{"NVFP4", -6, 2, -0.08203125F, 1.125F, 8.642578125, 837.8537330627441},
       }) {
    const auto types = block_types();
    const auto type = std::ranges::find(types, check.name, &BlockType::name);
    ASSERT_NE(type, types.end());
    FileMatrix file = block_matrix(*type, 1, type->columns, 1);
    for (std::size_t k = 0; k < type->bytes; ++k)
      file.codes[k] = static_cast<std::byte>(37 * k + 11);
    for (std::size_t k = 0; k < type->numbers.size(); ++k)
      store(file.codes.data() + type->numbers[k],
            static_cast<std::uint16_t>(k == 0 ? 0x2e00 : 0x2a00));
    if (check.name == "MXFP4") file.codes[0] = std::byte{122};
    if (check.name == "NVFP4") {
      constexpr std::uint8_t kScales[] = {0x38, 0x30, 0x07, 0x41};
      std::memcpy(file.codes.data(), kScales, 4);
    }
    std::vector<float> y(type->columns);
    unpack_row(packed(file, pool), 0, 0, y.data());
    EXPECT_EQ(y[0], check.first) << check.name;
    EXPECT_EQ(y[1], check.second) << check.name;
    EXPECT_EQ(y[y.size() / 2], check.middle) << check.name;
    EXPECT_EQ(y.back(), check.last) << check.name;
    double sum = 0, squares = 0;
    for (const float value : y) {
      sum += double{value};
      squares += double{value} * double{value};
    }
    EXPECT_EQ(sum, check.sum) << check.name;
    EXPECT_EQ(squares, check.squares) << check.name;
  }
}

TEST(Pack, RefusesScalesAndCodesThatAreNoNumbers) {
  ThreadPool pool({.threads = 1});
  const auto refuses = [&](FileMatrix file, std::vector<std::byte> FileMatrix::* part,
                           std::size_t at, std::uint8_t byte) {
    (file.*part)[at] = std::byte{byte};
    const RowSource source = file.source();
    const auto result = pack({&source, 1}, Arrangement::kStacked, pool);
    return !result && result.error().code == ErrorCode::kInvalidInput;
  };
  const Encoding mxfp8{.kind = Kind::kFloat8, .bits = 8, .group_size = 32, .scales = Scales::kE8m0};
  EXPECT_TRUE(refuses(stream_matrix(mxfp8, 2, 64, 1), &FileMatrix::scales, 3, 255));
  EXPECT_TRUE(refuses(stream_matrix(mxfp8, 2, 64, 1), &FileMatrix::codes, 77, 0xff));
  EXPECT_TRUE(refuses(block_matrix("MXFP4", 2, 64, 1), &FileMatrix::codes, 17, 255));
  EXPECT_TRUE(refuses(block_matrix("Q4_K", 2, 256, 1), &FileMatrix::codes, 3, 0x7c));    // dmin
  EXPECT_TRUE(refuses(block_matrix("Q6_K", 1, 256, 1), &FileMatrix::codes, 209, 0xfc));  // d
  EXPECT_FALSE(refuses(block_matrix("Q4_K", 2, 256, 1), &FileMatrix::codes, 20, 0xff));
}

}  // namespace
}  // namespace exo::kernels
