// Matrices as files store them, with the weights that the formats' definitions give, for tests: the
// formulas of gguf.md 2.3 and 2.4 and of models.md 1.6, element by element.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "kernels/pack.h"
#include "kernels/tile_reader.h"
#include "kernels/vector_ops.h"

namespace exo::kernels::testing_matrices {

using Kind = Encoding::Kind;
using Scales = Encoding::Scales;

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
inline float append_number(std::vector<std::byte>& bytes, FloatType type, float value) {
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

inline FileMatrix dense_matrix(FloatType type, std::size_t rows, std::size_t cols, unsigned seed) {
  FileMatrix matrix{
      .layout = RowLayout::kDense, .encoding = {.type = type}, .rows = rows, .cols = cols};
  Random random(seed);
  for (std::size_t i = 0; i < rows * cols; ++i)
    matrix.weights.push_back(append_number(matrix.codes, type, random.normal() / 8));
  return matrix;
}

inline float float4_value(unsigned code) {
  constexpr float kValues[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  return code < 8 ? kValues[code] : -kValues[code - 8];
}

// A finite E4M3 code.
inline std::uint8_t some_float8(Random& random) {
  const auto code = static_cast<std::uint8_t>(random.below(256));
  return (code & 0x7f) == 0x7f ? std::uint8_t{0x7e} : code;
}

inline void append_code(std::vector<std::byte>& codes, std::size_t bits, std::size_t index,
                        unsigned code) {
  for (std::size_t b = 0; b < bits; ++b) {
    const std::size_t at = index * bits + b;
    if (codes.size() <= at / 8) codes.resize(at / 8 + 1);
    if ((code >> b & 1) != 0) codes[at / 8] |= std::byte{1} << (at % 8);
  }
}

// MLX: affine, mxfp4, mxfp8, nvfp4.
inline FileMatrix stream_matrix(Encoding encoding, std::size_t rows, std::size_t cols,
                                unsigned seed) {
  FileMatrix matrix{.layout = RowLayout::kStream, .encoding = encoding, .rows = rows, .cols = cols};
  Random random(seed);
  float scale = 0, bias = 0;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    if (i % encoding.group_size == 0) {
      if (encoding.kind == Kind::kAffine) {
        scale = append_number(matrix.scales, encoding.type,
                              random.normal() / static_cast<float>(1U << encoding.bits));
        bias = append_number(matrix.biases, encoding.type, random.normal() / 4);
      } else if (encoding.scales == Scales::kE8m0) {
        const unsigned byte = 118 + random.below(6);
        scale = std::ldexp(1.0F, static_cast<int>(byte) - 127);
        matrix.scales.push_back(static_cast<std::byte>(byte));
      } else {
        const unsigned byte = 0x10 + random.below(0x18);
        scale = float8_value(static_cast<std::uint8_t>(byte));
        matrix.scales.push_back(static_cast<std::byte>(byte));
      }
    }
    const unsigned code =
        encoding.kind == Kind::kFloat8 ? some_float8(random) : random.below(1U << encoding.bits);
    append_code(matrix.codes, encoding.bits, i, code);
    if (encoding.kind == Kind::kAffine) {
      const float product = scale * static_cast<float>(code);
      matrix.weights.push_back(product + bias);
    } else {
      matrix.weights.push_back(scale * (encoding.kind == Kind::kFloat4
                                            ? float4_value(code)
                                            : float8_value(static_cast<std::uint8_t>(code))));
    }
  }
  return matrix;
}

// E4M3 with a scale per square of 128 × 128.
inline FileMatrix squares_matrix(std::size_t rows, std::size_t cols, unsigned seed) {
  FileMatrix matrix{.layout = RowLayout::kFloat8Squares,
                    .encoding = {.kind = Kind::kFloat8,
                                 .type = FloatType::kF32,
                                 .bits = 8,
                                 .group_size = kFloat8Square},
                    .rows = rows,
                    .cols = cols};
  Random random(seed);
  const std::size_t across = divide_up<std::size_t>(cols, kFloat8Square);
  std::vector<float> scales;
  for (std::size_t i = 0; i < across * divide_up<std::size_t>(rows, kFloat8Square); ++i)
    scales.push_back(append_number(matrix.scales, FloatType::kF32, random.normal() / 512));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      const std::uint8_t code = some_float8(random);
      matrix.codes.push_back(std::byte{code});
      matrix.weights.push_back(float8_value(code) *
                               scales[row / kFloat8Square * across + col / kFloat8Square]);
    }
  }
  return matrix;
}

// A GGUF block type: its size, where its f16 numbers are, and what its element i is worth.
struct BlockType {
  std::string name;
  RowLayout layout = RowLayout::kQ4_0;
  Encoding encoding;
  std::size_t columns = 32, bytes = 0;
  std::vector<std::size_t> numbers = {};  // offsets of d and of m or dmin
  std::function<float(const std::uint8_t* b, std::size_t i)> element = {};
};

namespace block {

inline float f16(const std::uint8_t* p) {
  return f16_to_float(static_cast<std::uint16_t>(p[0] | p[1] << 8));
}
inline int nibble(const std::uint8_t* q, std::size_t i) { return q[i % 16] >> (4 * (i / 16)) & 15; }
inline int bit(const std::uint8_t* q, std::size_t i) { return q[i / 8] >> (i % 8) & 1; }
inline float sum(float a, float b) { return a + b; }

// Scale (first) and bias codes of Q4_K and Q5_K.
inline std::pair<int, int> six_bits(const std::uint8_t* sc, std::size_t j) {
  if (j < 4) return {sc[j] & 63, sc[j + 4] & 63};
  return {(sc[j + 4] & 15) | sc[j - 4] >> 6 << 4, sc[j + 4] >> 4 | sc[j] >> 6 << 4};
}

inline float q2_k(const std::uint8_t* b, std::size_t i) {
  const std::size_t h = i / 128, g = i % 128 / 32, l = i % 32;
  const int s = b[8 * h + 2 * g + l / 16], q = b[16 + 32 * h + l] >> (2 * g) & 3;
  return sum(f16(b + 80) * static_cast<float>(s & 15) * static_cast<float>(q),
             -(f16(b + 82) * static_cast<float>(s >> 4)));
}
inline float q3_k(const std::uint8_t* b, std::size_t i) {
  const std::size_t h = i / 128, g = i % 128 / 32, l = i % 32, k = i / 16;
  const std::uint8_t* sc = b + 96;
  const int s = (sc[k % 8] >> (4 * (k / 8)) & 15) | (sc[8 + k % 4] >> (2 * (k / 4)) & 3) << 4;
  const int q = (b[32 + 32 * h + l] >> (2 * g) & 3) - ((b[l] >> (4 * h + g) & 1) != 0 ? 0 : 4);
  return f16(b + 108) * static_cast<float>(s - 32) * static_cast<float>(q);
}
inline float q4_k(const std::uint8_t* b, std::size_t i) {
  const std::size_t j = i / 32, l = i % 32;
  const auto [s, m] = six_bits(b + 4, j);
  const int q = b[16 + 32 * (j / 2) + l] >> (4 * (j % 2)) & 15;
  return sum(f16(b) * static_cast<float>(s) * static_cast<float>(q),
             -(f16(b + 2) * static_cast<float>(m)));
}
inline float q5_k(const std::uint8_t* b, std::size_t i) {
  const std::size_t j = i / 32, l = i % 32;
  const auto [s, m] = six_bits(b + 4, j);
  const int q = (b[48 + 32 * (j / 2) + l] >> (4 * (j % 2)) & 15) | (b[16 + l] >> j & 1) << 4;
  return sum(f16(b) * static_cast<float>(s) * static_cast<float>(q),
             -(f16(b + 2) * static_cast<float>(m)));
}
inline float q6_k(const std::uint8_t* b, std::size_t i) {
  const std::size_t h = i / 128, g = i % 128 / 32, l = i % 32, k = i / 16;
  const int q = ((b[64 * h + 32 * (g % 2) + l] >> (4 * (g / 2)) & 15) |
                 (b[128 + 32 * h + l] >> (2 * g) & 3) << 4) -
                32;
  return f16(b + 208) * static_cast<float>(static_cast<std::int8_t>(b[192 + k])) *
         static_cast<float>(q);
}
inline float iq4_xs(const std::uint8_t* b, std::size_t i) {
  const std::size_t j = i / 32, l = i % 32;
  const int high = b[2] | b[3] << 8;
  const int s = (b[4 + j / 2] >> (4 * (j % 2)) & 15) | (high >> (2 * j) & 3) << 4;
  return f16(b) * static_cast<float>(s - 32) *
         static_cast<float>(kNonlinearValues[b[8 + 16 * j + l % 16] >> (4 * (l / 16)) & 15]);
}
inline float nvfp4(const std::uint8_t* b, std::size_t i) {
  const std::size_t s = i / 16, l = i % 16;
  const std::uint8_t x = b[s] & 0x7f;
  const int code = b[4 + 8 * s + l % 8] >> (4 * (l / 8)) & 15;
  return x == 0x7f ? 0 : float4_value(static_cast<unsigned>(code)) * float8_value(x);
}

}  // namespace block

inline std::vector<BlockType> block_types() {
  using namespace block;
  const auto f16_groups = [](Kind kind, std::uint8_t bits) {
    return Encoding{.kind = kind, .type = FloatType::kF16, .bits = bits, .group_size = 32};
  };
  const auto two_level = [](Kind kind, std::uint8_t bits, std::uint16_t group) {
    return Encoding{.kind = kind, .bits = bits, .group_size = group, .scales = Scales::kTwoLevel};
  };
  const auto small = [](Scales scales, std::uint16_t group) {
    return Encoding{.kind = Kind::kFloat4, .bits = 4, .group_size = group, .scales = scales};
  };
  const auto plain = [](int q) { return static_cast<float>(q); };
  return {
      {"Q4_0",
       RowLayout::kQ4_0,
       f16_groups(Kind::kSymmetric, 4),
       32,
       18,
       {0},
       [=](auto b, auto i) { return plain(nibble(b + 2, i) - 8) * f16(b); }},
      {"Q4_1",
       RowLayout::kQ4_1,
       f16_groups(Kind::kAffine, 4),
       32,
       20,
       {0, 2},
       [=](auto b, auto i) { return sum(plain(nibble(b + 4, i)) * f16(b), f16(b + 2)); }},
      {"Q5_0",
       RowLayout::kQ5_0,
       f16_groups(Kind::kSymmetric, 5),
       32,
       22,
       {0},
       [=](auto b, auto i) {
         return plain((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16) * f16(b);
       }},
      {"Q5_1",
       RowLayout::kQ5_1,
       f16_groups(Kind::kAffine, 5),
       32,
       24,
       {0, 2},
       [=](auto b, auto i) {
         return sum(plain(nibble(b + 8, i) | bit(b + 4, i) << 4) * f16(b), f16(b + 2));
       }},
      {"Q8_0",
       RowLayout::kQ8_0,
       f16_groups(Kind::kSymmetric, 8),
       32,
       34,
       {0},
       [=](auto b, auto i) { return plain(static_cast<std::int8_t>(b[2 + i])) * f16(b); }},
      {"IQ4_NL",
       RowLayout::kIq4Nl,
       f16_groups(Kind::kNonlinear, 4),
       32,
       18,
       {0},
       [=](auto b, auto i) { return f16(b) * plain(kNonlinearValues[nibble(b + 2, i)]); }},
      {"MXFP4",
       RowLayout::kMxfp4,
       small(Scales::kE8m0, 32),
       32,
       17,
       {},
       [=](auto b, auto i) {
         return float4_value(static_cast<unsigned>(nibble(b + 1, i))) *
                std::ldexp(1.0F, b[0] - 127);
       }},
      {"NVFP4", RowLayout::kNvfp4, small(Scales::kE4m3, 16), 64, 36, {}, nvfp4},
      {"Q2_K", RowLayout::kQ2K, two_level(Kind::kAffine, 2, 16), 256, 84, {80, 82}, q2_k},
      {"Q3_K", RowLayout::kQ3K, two_level(Kind::kSymmetric, 3, 16), 256, 110, {108}, q3_k},
      {"Q4_K", RowLayout::kQ4K, two_level(Kind::kAffine, 4, 32), 256, 144, {0, 2}, q4_k},
      {"Q5_K", RowLayout::kQ5K, two_level(Kind::kAffine, 5, 32), 256, 176, {0, 2}, q5_k},
      {"Q6_K", RowLayout::kQ6K, two_level(Kind::kSymmetric, 6, 16), 256, 210, {208}, q6_k},
      {"IQ4_XS", RowLayout::kIq4Xs, two_level(Kind::kNonlinear, 4, 32), 256, 136, {0}, iq4_xs},
  };
}

// Random blocks whose numbers make weights of about 1/8.
inline FileMatrix block_matrix(const BlockType& type, std::size_t rows, std::size_t cols,
                               unsigned seed) {
  FileMatrix matrix{.layout = type.layout, .encoding = type.encoding, .rows = rows, .cols = cols};
  Random random(seed);
  const bool two_level = type.encoding.scales == Scales::kTwoLevel;
  const float levels =
      type.encoding.kind == Kind::kNonlinear ? 128 : static_cast<float>(1U << type.encoding.bits);
  std::vector<std::uint8_t> bytes(type.bytes);
  for (std::size_t n = 0; n < rows * cols / type.columns; ++n) {
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
    for (std::size_t k = 0; k < type.numbers.size(); ++k) {
      const float size = random.normal() / (two_level ? 32 : 1);
      store(reinterpret_cast<std::byte*>(bytes.data() + type.numbers[k]),
            float_to_f16(k == 0 ? size / levels : size / 4));
    }
    if (type.layout == RowLayout::kMxfp4) bytes[0] = static_cast<std::uint8_t>(120 + n % 6);
    for (std::size_t s = 0; s < 4 && type.layout == RowLayout::kNvfp4; ++s)
      bytes[s] = n == 0 && s == 1 ? 0x7f : static_cast<std::uint8_t>(0x10 + random.below(0x18));
    for (std::size_t i = 0; i < type.columns; ++i)
      matrix.weights.push_back(type.element(bytes.data(), i));
    const auto* raw = reinterpret_cast<const std::byte*>(bytes.data());
    matrix.codes.insert(matrix.codes.end(), raw, raw + bytes.size());
  }
  return matrix;
}

inline FileMatrix block_matrix(std::string_view name, std::size_t rows, std::size_t cols,
                               unsigned seed) {
  for (const BlockType& type : block_types())
    if (type.name == name) return block_matrix(type, rows, cols, seed);
  return {};
}

// Every encoding, as makers of matrices.
struct Case {
  std::string name;
  std::size_t unit;  // cols must be a multiple of it
  std::function<FileMatrix(std::size_t rows, std::size_t cols, unsigned seed)> make;
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add_stream = [&](const Encoding& encoding) {
    cases.push_back({to_string(encoding), std::max<std::size_t>(32, encoding.group_size),
                     [=](std::size_t r, std::size_t c, unsigned s) {
                       return stream_matrix(encoding, r, c, s);
                     }});
  };
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBf16}) {
    cases.push_back(
        {to_string(Encoding{.type = type}), 1,
         [=](std::size_t r, std::size_t c, unsigned s) { return dense_matrix(type, r, c, s); }});
    for (const int bits : {2, 3, 4, 5, 6, 8})
      for (const int group : {32, 64, 128})
        add_stream({.kind = Kind::kAffine,
                    .type = type,
                    .bits = static_cast<std::uint8_t>(bits),
                    .group_size = static_cast<std::uint16_t>(group)});
  }
  add_stream({.kind = Kind::kFloat4, .bits = 4, .group_size = 32, .scales = Scales::kE8m0});
  add_stream({.kind = Kind::kFloat8, .bits = 8, .group_size = 32, .scales = Scales::kE8m0});
  add_stream({.kind = Kind::kFloat4, .bits = 4, .group_size = 16, .scales = Scales::kE4m3});
  cases.push_back({"E4M3 in squares", 32, [](std::size_t r, std::size_t c, unsigned s) {
                     return squares_matrix(r, c, s);
                   }});
  for (const BlockType& type : block_types())
    cases.push_back({type.name, type.columns, [=](std::size_t r, std::size_t c, unsigned s) {
                       return block_matrix(type, r, c, s);
                     }});
  return cases;
}

}  // namespace exo::kernels::testing_matrices
