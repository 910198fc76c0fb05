#include "api/fields.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

#include <nlohmann/json.hpp>

namespace exo::api {

const Json* Fields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::name(std::string_view field) const {
  return path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field);
}

std::unexpected<Error> Fields::bad(std::string_view field, std::string message) const {
  return fail(ErrorCode::kInvalidInput, fmt::format("'{}' {}", name(field), message), name(field));
}

Result<std::optional<bool>> Fields::boolean(std::string_view field) const {
  const Json* value = find(field);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return bad(field, "must be true or false");
  return std::optional(value->get<bool>());
}

Result<std::optional<std::string>> Fields::text(std::string_view field) const {
  const Json* value = find(field);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return bad(field, "must be a string");
  return std::optional(value->get<std::string>());
}

Result<std::optional<double>> Fields::number(std::string_view field, NumberRange range) const {
  const Json* value = find(field);
  if (value == nullptr) return std::optional<double>();
  const double number =
      value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(number >= range.low && number <= range.high)) {
    return bad(field, fmt::format("must be a number from {:g} to {:g}", range.low, range.high));
  }
  return std::optional(number);
}

Result<std::optional<std::int64_t>> Fields::integer(std::string_view field,
                                                    IntegerRange range) const {
  const Json* value = find(field);
  if (value == nullptr) return std::optional<std::int64_t>();
  const auto number = whole_number(*value);
  if (!number || *number < range.low || *number > range.high) {
    if (range.high == std::numeric_limits<std::int64_t>::max())
      return bad(field, fmt::format("must be an integer of at least {}", range.low));
    return bad(field, fmt::format("must be an integer from {} to {}", range.low, range.high));
  }
  return number;
}

std::optional<std::int64_t> whole_number(const Json& value) {
  constexpr double kLimit = 9.2e18;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::trunc(number) == number && std::abs(number) < kLimit)
      return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

}  // namespace exo::api
