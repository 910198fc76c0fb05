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

// Bytes of a matrix's file that stand for no number, and where.
struct Poison {
  std::vector<std::byte> FileMatrix::* part;
  std::size_t at;
  std::vector<std::uint8_t> bytes;
};

// NaN and −∞ as `type`.
std::vector<std::vector<std::uint8_t>> no_numbers(FloatType type) {
  switch (type) {
    case FloatType::kF32:
      return {{1, 0, 0x80, 0x7f}, {0, 0, 0x80, 0xff}};
    case FloatType::kF16:
      return {{1, 0x7c}, {0, 0xfc}};
    case FloatType::kBf16:
      return {{0x81, 0x7f}, {0x80, 0xff}};
  }
  return {};
}

// One of each kind that the matrix's format has, in its last row.
std::vector<Poison> poisons(const FileMatrix& file) {
  std::vector<Poison> result;
  const auto add_numbers = [&](std::vector<std::byte> FileMatrix::* part, FloatType type) {
    for (const auto& bytes : no_numbers(type))
      result.push_back({part, (file.*part).size() - bytes.size(), bytes});
  };
  const Encoding& encoding = file.encoding;
  if (encoding.kind == Kind::kDense) add_numbers(&FileMatrix::codes, encoding.type);
  if (!file.scales.empty()) {
    const std::size_t last = file.scales.size() - 1;
    if (encoding.scales == Scales::kE8m0) result.push_back({&FileMatrix::scales, last, {0xff}});
    if (encoding.scales == Scales::kE4m3)
      for (const auto byte : {std::uint8_t{0x7f}, std::uint8_t{0xff}})
        result.push_back({&FileMatrix::scales, last, {byte}});
    if (encoding.scales == Scales::kNumbers) add_numbers(&FileMatrix::scales, encoding.type);
  }
  if (!file.biases.empty()) add_numbers(&FileMatrix::biases, encoding.type);
  if (encoding.kind == Kind::kFloat8)
    for (const auto byte : {std::uint8_t{0x7f}, std::uint8_t{0xff}})
      result.push_back({&FileMatrix::codes, file.codes.size() - 3, {byte}});
  for (const BlockType& type : block_types()) {
    if (type.layout != file.layout) continue;
    const std::size_t block = file.codes.size() - type.bytes;
    for (const std::size_t offset : type.numbers)
      for (const auto& bytes : no_numbers(FloatType::kF16))
        result.push_back({&FileMatrix::codes, block + offset, bytes});
    if (type.layout == RowLayout::kMxfp4) result.push_back({&FileMatrix::codes, block, {0xff}});
  }
  return result;
}

TEST(Pack, RefusesWhatIsNoNumberInEveryEncoding) {
  ThreadPool pool({.threads = 1});
  for (const Case& c : all_cases()) {
    const FileMatrix sound = c.make(19, c.unit == 1 ? 77 : 2 * c.unit, 22);
    const auto places = poisons(sound);
    // In GGUF's NVFP4, the one format without any, 0x7f is a scale of zero.
    EXPECT_EQ(places.empty(), c.name == "NVFP4") << c.name;
    for (const Poison& poison : places) {
      FileMatrix file = sound;
      std::ranges::transform(poison.bytes,
                             (file.*poison.part).begin() + static_cast<std::ptrdiff_t>(poison.at),
                             [](std::uint8_t byte) { return std::byte{byte}; });
      const RowSource source = file.source();
      const auto result = pack({&source, 1}, Arrangement::kStacked, pool);
      ASSERT_FALSE(result) << c.name << ", byte " << poison.at;
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput) << c.name;
    }
  }
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

}  // namespace
}  // namespace exo::kernels
