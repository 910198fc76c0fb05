#include "models/synthetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/half.h"
#include "core/mutex.h"
#include "core/strings.h"
#include "models/gguf_types.h"

namespace exo::models {
namespace {

using Kind = WeightFormat::Kind;
using Bytes = std::vector<std::byte>;

constexpr double kDeviation = 0.02;  // of the weights

constexpr std::array kMlxModes = {
    std::pair<std::string_view, WeightFormat>{"f8", {.kind = Kind::kFloat8Squares}},
    std::pair<std::string_view, WeightFormat>{"mxfp4", {.kind = Kind::kMlxMxfp4}},
    std::pair<std::string_view, WeightFormat>{"mxfp8", {.kind = Kind::kMlxMxfp8}},
    std::pair<std::string_view, WeightFormat>{"nvfp4", {.kind = Kind::kMlxNvfp4}},
};

std::map<std::string, WeightFormat, std::less<>> named_formats() {
  std::map<std::string, WeightFormat, std::less<>> formats;
  for (std::uint32_t number = 0; number <= 30; ++number) {
    const GgufType* type = gguf_type(number);
    const auto format = type == nullptr ? std::nullopt : weight_format(*type);
    if (format) formats.emplace(to_lower_ascii(type->name), *format);
  }
  constexpr std::array<std::uint8_t, 6> kBits = {2, 3, 4, 5, 6, 8};
  constexpr std::array<std::uint16_t, 3> kGroups = {32, 64, 128};
  for (const std::uint8_t bits : kBits) {
    for (const std::uint16_t group : kGroups) {
      formats.emplace(
          fmt::format("affine-{}-{}", bits, group),
          WeightFormat{
              .kind = Kind::kMlxAffine, .type = DType::kBf16, .bits = bits, .group_size = group});
    }
  }
  formats.insert(kMlxModes.begin(), kMlxModes.end());
  return formats;
}

// Random bytes, the same ones for the same name. Source: Steele, Lea and Flood, SplitMix64.
void fill_random(std::span<std::byte> bytes, std::string_view name) {
  std::uint64_t state = std::hash<std::string_view>{}(name);
  const auto next = [&state] {
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  };
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) store(bytes.data(), next());
  const std::uint64_t last = next();
  std::memcpy(bytes.data(), &last, bytes.size());
}

template <typename T>
void repeat(std::span<std::byte> bytes, T number) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T))
    store(bytes.data() + i, number);
}

// The deviation of whole numbers 0 … 2^bits − 1 that are equally likely.
double deviation_of_codes(unsigned bits) { return std::sqrt((std::pow(4, bits) - 1) / 12); }

// What must not be random in a block of GGUF: its factors, and the scales of its groups, which all
// become the same number.
struct BlockRecipe {
  Kind kind = Kind::kQ4_0;
  double deviation = 1;  // of the weights where d is 1
  std::size_t d = 0;     // where its f16 is
  std::size_t bias = 0;  // where the f16 of m or dmin is, if bias_per_d is not 0
  double bias_per_d = 0;
  struct Fixed {
    std::size_t offset = 0, count = 0;
    std::uint8_t byte = 0;
  };
  std::array<Fixed, 2> fixed = {};
};

// Source: gguf.md 2.3, 2.4. The scales of groups: Q2_K 8, Q3_K 16, Q4_K to Q6_K 32, IQ4_XS 16.
constexpr std::array kRecipes = {
    BlockRecipe{.kind = Kind::kQ4_0, .deviation = 4.61},
    BlockRecipe{.kind = Kind::kQ4_1, .deviation = 4.61, .bias = 2, .bias_per_d = -7.5},
    BlockRecipe{.kind = Kind::kQ5_0, .deviation = 9.23},
    BlockRecipe{.kind = Kind::kQ5_1, .deviation = 9.23, .bias = 2, .bias_per_d = -15.5},
    BlockRecipe{.kind = Kind::kQ8_0, .deviation = 73.9},
    BlockRecipe{.kind = Kind::kQ2K,
                .deviation = 8.94,
                .d = 80,
                .bias = 82,
                .bias_per_d = 1.5,
                .fixed = {{{0, 16, 0x88}}}},
    BlockRecipe{.kind = Kind::kQ3K,
                .deviation = 36.7,
                .d = 108,
                .fixed = {{{96, 8, 0x00}, {104, 4, 0xff}}}},
    BlockRecipe{.kind = Kind::kQ4K,
                .deviation = 147.5,
                .bias = 2,
                .bias_per_d = 7.5,
                .fixed = {{{4, 8, 0xa0}, {12, 4, 0x00}}}},
    BlockRecipe{.kind = Kind::kQ5K,
                .deviation = 295,
                .bias = 2,
                .bias_per_d = 15.5,
                .fixed = {{{4, 8, 0xa0}, {12, 4, 0x00}}}},
    BlockRecipe{.kind = Kind::kQ6K, .deviation = 591, .d = 208, .fixed = {{{192, 16, 32}}}},
    BlockRecipe{.kind = Kind::kIq4Nl, .deviation = 67.4},
    BlockRecipe{.kind = Kind::kIq4Xs, .deviation = 1078, .fixed = {{{2, 2, 0xff}, {4, 4, 0x00}}}},
};

void fix_blocks(std::span<std::byte> bytes, const BlockRecipe& recipe, std::size_t block_bytes) {
  const double d = kDeviation / recipe.deviation;
  const std::uint16_t factor = float_to_f16(static_cast<float>(d)),
                      bias = float_to_f16(static_cast<float>(d * recipe.bias_per_d));
  for (; !bytes.empty(); bytes = bytes.subspan(block_bytes)) {
    for (const auto& fixed : recipe.fixed)
      std::ranges::fill(bytes.subspan(fixed.offset, fixed.count), std::byte{fixed.byte});
    store(bytes.data() + recipe.d, factor);
    if (recipe.bias_per_d != 0) store(bytes.data() + recipe.bias, bias);
  }
}

void make_dense(std::span<std::byte> bytes, DType type) {
  const std::size_t size = size_of(type);
  const float step = static_cast<float>(kDeviation / deviation_of_codes(8));
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const float value = step * (static_cast<float>(std::to_integer<int>(bytes[i])) - 127.5F);
    std::byte* at = bytes.data() + i;
    if (type == DType::kF32) {
      store(at, value);
    } else {
      store(at, type == DType::kF16 ? float_to_f16(value) : float_to_bf16(value));
    }
  }
}

// The E4M3 numbers below 2 have a deviation near 0.62; without their highest bit of exponent, none
// of the random bytes is NaN.
constexpr double kFloat8Deviation = 0.62;
void keep_below_two(std::span<std::byte> codes) {
  for (std::byte& code : codes) code &= std::byte{0xbf};
}

struct Stored {
  Bytes codes = {}, scales = {}, biases = {};
};

// GGUF's types but the dense ones, which have blocks.
Stored make_blocks(const WeightFormat& format, std::size_t elements, std::string_view name) {
  const GgufType& type = *gguf_type(format);
  Stored stored{.codes = Bytes(elements / type.block * type.bytes)};
  fill_random(stored.codes, name);
  const auto recipe = std::ranges::find(kRecipes, format.kind, &BlockRecipe::kind);
  fix_blocks(stored.codes, *recipe, type.bytes);
  return stored;
}

Stored make_affine(const WeightFormat& format, std::size_t elements, std::string_view name) {
  const std::size_t groups = elements / format.group_size;
  Stored stored{.codes = Bytes(elements * format.bits / 8),
                .scales = Bytes(groups * 2),
                .biases = Bytes(groups * 2)};
  fill_random(stored.codes, name);
  const double scale = kDeviation / deviation_of_codes(format.bits),
               middle = (std::pow(2, format.bits) - 1) / 2;
  repeat(std::span(stored.scales), float_to_bf16(static_cast<float>(scale)));
  repeat(std::span(stored.biases), float_to_bf16(static_cast<float>(-scale * middle)));
  return stored;
}

// The floating-point modes. E2M1 numbers have a deviation of 2.93: 2^−7 of it is near 0.02.
Stored make_float(const WeightFormat& format, std::size_t rows, std::size_t cols,
                  std::string_view name) {
  constexpr std::byte kE8m0ForFloat4{120}, kE8m0ForFloat8{122}, kE4m3ForFloat4{0x04};
  const bool four_bits = format.kind == Kind::kMlxMxfp4 || format.kind == Kind::kMlxNvfp4;
  Stored stored{.codes = Bytes(rows * cols / (four_bits ? 2 : 1))};
  fill_random(stored.codes, name);
  if (!four_bits) keep_below_two(stored.codes);
  if (format.kind == Kind::kFloat8Squares) {
    const std::size_t squares =
        divide_up<std::size_t>(rows, 128) * divide_up<std::size_t>(cols, 128);
    stored.scales.resize(squares * sizeof(float));
    repeat(std::span(stored.scales), static_cast<float>(kDeviation / kFloat8Deviation));
  } else if (format.kind == Kind::kMlxNvfp4) {
    stored.scales.assign(rows * cols / 16, kE4m3ForFloat4);
  } else {
    stored.scales.assign(rows * cols / 32, four_bits ? kE8m0ForFloat4 : kE8m0ForFloat8);
  }
  return stored;
}

Stored make_matrix(const WeightFormat& format, std::size_t rows, std::size_t cols,
                   std::string_view name) {
  switch (format.kind) {
    case Kind::kDense: {
      Stored stored{.codes = Bytes(rows * cols * size_of(format.type))};
      fill_random(stored.codes, name);
      make_dense(stored.codes, format.type);
      return stored;
    }
    case Kind::kMlxAffine:
      return make_affine(format, rows * cols, name);
    case Kind::kMlxMxfp4:
    case Kind::kMlxMxfp8:
    case Kind::kMlxNvfp4:
    case Kind::kFloat8Squares:
      return make_float(format, rows, cols, name);
    default:
      return make_blocks(format, rows * cols, name);
  }
}

// Columns must be a multiple of it.
std::size_t column_unit(const WeightFormat& format) {
  if (format.kind == Kind::kMlxAffine) return format.group_size;
  const GgufType* type = gguf_type(format);
  return type != nullptr ? type->block : 32;
}

// "model.layers.17.mlp.up_proj" → "model.layers.mlp.up_proj"
std::string without_layer(std::string_view name) {
  std::string result(name);
  const std::size_t at = result.find(".layers.");
  if (at == std::string::npos) return result;
  const std::size_t number = at + std::string_view(".layers.").size();
  return result.erase(number, result.find('.', number) + 1 - number);
}

class SyntheticCheckpoint final : public Checkpoint {
 public:
  SyntheticCheckpoint(Json config, const WeightFormat& format)
      : config_(std::move(config)), format_(format) {
    const Json& text = config_.contains("text_config") ? config_["text_config"] : config_;
    const auto tied = text.find("tie_word_embeddings");
    has_head_ = tied != text.end() && *tied == false;
  }

  const Json& config() const override { return config_; }
  const std::vector<std::uint32_t>& eos_token_ids() const override { return eos_; }
  bool has(std::string_view tensor) const override {
    return has_head_ || !tensor.contains("lm_head");
  }

  Result<MatrixView> matrix(std::string_view name, std::size_t rows,
                            std::size_t cols) const override {
    if (cols % column_unit(format_) != 0) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} columns are no whole number of groups of {}: take another "
                              "quantisation",
                              cols, column_unit(format_)),
                  std::string(name));
    }
    const Stored& stored = find_or_make(without_layer(name), rows, cols);
    return MatrixView{.name = std::string(name),
                      .format = format_,
                      .rows = rows,
                      .cols = cols,
                      .codes = stored.codes,
                      .scales = stored.scales,
                      .biases = stored.biases};
  }

  Result<std::vector<float>> vector(std::string_view name, std::size_t size) const override {
    return std::vector<float>(size, name.ends_with(".bias") ? 0.0F : 1.0F);
  }

  Result<TokenizerFiles> tokenizer() const override { return no_tokenizer(); }
  Result<std::string> tokenizer_json() const override { return no_tokenizer(); }
  bool has_token(std::string_view) const override { return false; }

  std::vector<TensorInfo> tensors() const override { return {}; }
  std::size_t weight_bytes() const override { return 0; }
  void drop(std::span<const std::byte>) const override {}

 private:
  static std::unexpected<Error> no_tokenizer() {
    return fail(ErrorCode::kUnsupported, "a synthetic model has no tokenizer");
  }

  const Stored& find_or_make(const std::string& name, std::size_t rows, std::size_t cols) const {
    const MutexLock lock(mutex_);
    const auto key = fmt::format("{} {}x{}", name, rows, cols);
    auto found = made_.find(key);
    if (found == made_.end())
      found = made_.emplace(key, make_matrix(format_, rows, cols, name)).first;
    return found->second;
  }

  Json config_;
  WeightFormat format_;
  std::vector<std::uint32_t> eos_;
  bool has_head_ = false;
  mutable Mutex mutex_;
  mutable std::map<std::string, Stored> made_ EXO_GUARDED_BY(mutex_);
};

}  // namespace

Result<WeightFormat> weight_format_from(std::string_view name) {
  const auto formats = named_formats();
  const auto found = formats.find(to_lower_ascii(name));
  if (found != formats.end()) return found->second;
  return fail(ErrorCode::kInvalidInput,
              fmt::format("unknown quantisation; known: {}", weight_format_names()),
              std::string(name));
}

std::string weight_format_names() {
  std::vector<std::string> names = {"affine-{2,3,4,5,6,8}-{32,64,128}"};
  for (const auto& [name, format] : named_formats())
    if (format.kind != Kind::kMlxAffine) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::unique_ptr<Checkpoint> make_synthetic(Json config, const WeightFormat& format) {
  return std::make_unique<SyntheticCheckpoint>(std::move(config), format);
}

}  // namespace exo::models
