#include "models/gguf_metadata.h"

#include <array>
#include <fmt/format.h>
#include <limits>

#include "core/bytes.h"
#include "core/utf8.h"

namespace exo::models {
namespace {

constexpr std::uint32_t kString = 8, kArray = 9, kBool = 7, kFloat32 = 6, kFloat64 = 12;
constexpr std::array<std::size_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxKeyBytes = 65535;

std::unexpected<Error> damaged(std::string_view what, std::string_view key = {}) {
  return fail(ErrorCode::kInvalidInput, fmt::format("damaged GGUF file: {}", what),
              std::string(key));
}

template <typename T>
Result<T> take(std::span<const std::byte> file, std::size_t* offset) {
  const auto value = read_at<T>(file, *offset);
  if (!value) return damaged("the header ends too early");
  *offset += sizeof(T);
  return *value;
}

Result<std::string_view> take_string(std::span<const std::byte> file, std::size_t* offset) {
  EXO_TRY(const auto length, take<std::uint64_t>(file, offset));
  if (length > kMaxCount || length > file.size() - *offset)
    return damaged("a string is longer than the file");
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + *offset, length);
  *offset += length;
  return text;
}

// Moves over the payload of an array.
Result<void> skip_array(std::span<const std::byte> file, std::uint32_t element, std::uint64_t count,
                        std::size_t* offset) {
  if (element >= kSizes.size() || element == kArray) return damaged("an array of an unknown type");
  const std::size_t left = file.size() - *offset;
  const std::size_t smallest = element == kString ? 8 : kSizes[element];
  if (count > kMaxCount || count > left / smallest)
    return damaged("an array is longer than the file");
  if (element != kString) {
    *offset += count * smallest;
    return {};
  }
  for (std::uint64_t i = 0; i < count; ++i) EXO_TRY(take_string(file, offset));
  return {};
}

std::optional<double> float_at(const std::byte* p, std::uint32_t type) {
  if (type == kFloat32) return double{load<float>(p)};
  if (type == kFloat64) return load<double>(p);
  return std::nullopt;
}

std::optional<std::int64_t> integer_at(const std::byte* p, std::uint32_t type) {
  switch (type) {
    case 0:
      return load<std::uint8_t>(p);
    case 1:
      return load<std::int8_t>(p);
    case 2:
      return load<std::uint16_t>(p);
    case 3:
      return load<std::int16_t>(p);
    case 4:
      return load<std::uint32_t>(p);
    case 5:
      return load<std::int32_t>(p);
    case 10: {
      const auto value = load<std::uint64_t>(p);
      if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    case 11:
      return load<std::int64_t>(p);
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<GgufMetadata> GgufMetadata::read(std::span<const std::byte> file, std::uint64_t count,
                                        std::size_t* offset) {
  GgufMetadata metadata;
  metadata.file_ = file;
  for (std::uint64_t i = 0; i < count; ++i) {
    EXO_TRY(const std::string_view key, take_string(file, offset));
    if (key.empty() || key.size() > kMaxKeyBytes || !is_valid_utf8(key))
      return damaged("a key is empty, too long or no text");
    Value value;
    EXO_TRY(value.type, take<std::uint32_t>(file, offset));
    value.offset = *offset;
    if (value.type == kArray) {
      EXO_TRY(value.element, take<std::uint32_t>(file, offset));
      EXO_TRY(value.count, take<std::uint64_t>(file, offset));
      value.offset = *offset;
      EXO_TRY(skip_array(file, value.element, value.count, offset));
    } else if (value.type == kString) {
      EXO_TRY(take_string(file, offset));
    } else {
      if (value.type >= kSizes.size()) return damaged("a value has an unknown type", key);
      if (file.size() - *offset < kSizes[value.type])
        return damaged("the header ends too early", key);
      *offset += kSizes[value.type];
    }
    if (!metadata.values_.emplace(key, value).second) return damaged("a key occurs twice", key);
  }
  return metadata;
}

const GgufMetadata::Value* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool GgufMetadata::has(std::string_view key) const { return find(key) != nullptr; }

std::vector<std::string> GgufMetadata::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

std::optional<std::string_view> GgufMetadata::string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kString) return std::nullopt;
  std::size_t offset = value->offset;
  return *take_string(file_, &offset);  // checked when it was read
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type == kArray) return std::nullopt;
  return integer_at(file_.data() + value->offset, value->type);
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type == kArray || value->type == kString) return std::nullopt;
  if (const auto real = float_at(file_.data() + value->offset, value->type)) return real;
  const auto whole = integer(key);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kBool) return std::nullopt;
  return load<std::uint8_t>(file_.data() + value->offset) != 0;
}

std::optional<std::vector<std::string_view>> GgufMetadata::strings(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kArray || value->element != kString) return std::nullopt;
  std::vector<std::string_view> texts;
  texts.reserve(value->count);
  std::size_t offset = value->offset;
  for (std::uint64_t i = 0; i < value->count; ++i) texts.push_back(*take_string(file_, &offset));
  return texts;
}

std::optional<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kArray || value->element == kString) return std::nullopt;
  std::vector<std::int64_t> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const std::byte* p = file_.data() + value->offset + i * kSizes[value->element];
    const auto number = value->element == kBool
                            ? std::optional<std::int64_t>(load<std::uint8_t>(p) != 0 ? 1 : 0)
                            : integer_at(p, value->element);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<double>> GgufMetadata::numbers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kArray || value->element == kString) return std::nullopt;
  std::vector<double> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const std::byte* p = file_.data() + value->offset + i * kSizes[value->element];
    if (const auto real = float_at(p, value->element)) {
      numbers.push_back(*real);
    } else if (const auto whole = integer_at(p, value->element)) {
      numbers.push_back(static_cast<double>(*whole));
    } else {
      return std::nullopt;
    }
  }
  return numbers;
}

std::optional<std::uint64_t> GgufMetadata::array_size(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kArray) return std::nullopt;
  return value->count;
}

}  // namespace exo::models
