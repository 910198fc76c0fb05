#include "engine/families/config_reader.h"

#include <cmath>
#include <fmt/format.h>
#include <utility>

#include <nlohmann/json.hpp>

namespace exo::engine::families {

ConfigReader::ConfigReader(const Json& object, std::string prefix)
    : object_(&object), prefix_(std::move(prefix)) {}

const Json* ConfigReader::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(std::string_view key) const { return find(key) != nullptr; }

std::unexpected<Error> ConfigReader::wrong(std::string_view key, std::string_view must) const {
  const std::string path = prefix_ + std::string(key);
  return fail(ErrorCode::kInvalidInput,
              fmt::format("{} of the model's configuration {}", path, must), path);
}

Result<std::size_t> ConfigReader::size(std::string_view key, SizeRange range,
                                       std::optional<std::size_t> fallback) const {
  const Json* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) return wrong(key, "is missing");
  // 576.0 is an integer to the tools that write such files.
  double number = -1;
  if (value->is_number()) number = value->get<double>();
  if (number >= static_cast<double>(range.low) && number <= static_cast<double>(range.high) &&
      number == std::floor(number))
    return static_cast<std::size_t>(number);
  return wrong(key, fmt::format("must be an integer from {} to {}", range.low, range.high));
}

Result<double> ConfigReader::number(std::string_view key, NumberRange range,
                                    std::optional<double> fallback) const {
  const Json* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) return wrong(key, "is missing");
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= range.low && number <= range.high) return number;
  }
  return wrong(key, fmt::format("must be a number from {} to {}", range.low, range.high));
}

Result<bool> ConfigReader::flag(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong(key, "must be true or false");
  return value->get<bool>();
}

Result<std::string> ConfigReader::text(std::string_view key,
                                       std::optional<std::string> fallback) const {
  const Json* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) return wrong(key, "is missing");
  if (!value->is_string()) return wrong(key, "must be a string");
  return value->get<std::string>();
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  return text.size() <= kLongest ? fmt::format("\"{}\"", text)
                                 : fmt::format("\"{}…\"", text.substr(0, kLongest));
}

}  // namespace exo::engine::families
