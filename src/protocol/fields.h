// Reading JSON objects field by field with a clear error; for protocol's .cc files only.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/result.h"

namespace exo::protocol {

inline std::unexpected<Error> wrong(std::string_view field, std::string_view wanted) {
  return fail(ErrorCode::kInvalidInput, fmt::format("the field {} must be {}", field, wanted),
              std::string(field));
}

// One value into `out`. Errors: kInvalidInput with the field's name.
inline Result<void> read_value(const Json& json, std::string_view field, std::string& out) {
  if (!json.is_string()) return wrong(field, "a string");
  out = json.get_ref<const std::string&>();
  return {};
}

inline Result<void> read_value(const Json& json, std::string_view field, bool& out) {
  if (!json.is_boolean()) return wrong(field, "true or false");
  out = json.get<bool>();
  return {};
}

inline Result<void> read_value(const Json& json, std::string_view field, double& out) {
  if (!json.is_number()) return wrong(field, "a number");
  out = json.get<double>();
  if (!std::isfinite(out)) return wrong(field, "a finite number");
  return {};
}

inline Result<void> read_value(const Json& json, std::string_view field, std::uint64_t& out) {
  if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<std::int64_t>() < 0)) {
    return wrong(field, "a whole number, 0 or more");
  }
  out = json.get<std::uint64_t>();
  return {};
}

inline Result<void> read_value(const Json& json, std::string_view field, std::int64_t& out) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > kMost)) {
    return wrong(field, "a whole number of 64 bits");
  }
  out = json.get<std::int64_t>();
  return {};
}

template <typename T>
Result<void> read_value(const Json& json, std::string_view field, std::optional<T>& out) {
  if (json.is_null()) return {};
  return read_value(json, field, out.emplace());
}

// The field of an object; one that is absent leaves `out` as it is.
template <typename T>
Result<void> read_field(const Json& object, const char* field, T& out) {
  const auto found = object.find(field);
  if (found == object.end()) return {};
  return read_value(*found, field, out);
}

// A field that has to be there.
template <typename T>
Result<void> need_field(const Json& object, const char* field, T& out) {
  const auto found = object.find(field);
  if (found == object.end()) return wrong(field, "there");
  return read_value(*found, field, out);
}

inline Result<void> check_object(const Json& json, std::string_view what) {
  if (json.is_object()) return {};
  return wrong(what, "an object");
}

// A list, each item read by `read(json) -> Result<T>`.
template <typename T, typename Read>
Result<void> read_list(const Json& object, const char* field, std::vector<T>& out, Read read) {
  const auto found = object.find(field);
  if (found == object.end()) return {};
  if (!found->is_array()) return wrong(field, "a list");
  for (const Json& item : *found) {
    EXO_TRY(T value, read(item));
    out.push_back(std::move(value));
  }
  return {};
}

template <typename T>
void put_if(Json& object, const char* field, const std::optional<T>& value) {
  if (value) object[field] = *value;
}

// A variant's JSON is {"Type": {…}}.
struct Variant {
  std::string type = {};
  const Json* body = nullptr;
};

inline Result<Variant> read_variant(const Json& json, std::string_view what) {
  if (!json.is_object() || json.size() != 1 || !json.begin()->is_object())
    return wrong(what, "an object of one type that holds an object");
  return Variant{.type = json.begin().key(), .body = &*json.begin()};
}

inline Json error_to_json(const Error& error) {
  return Json{{"code", std::string(name(error.code))},
              {"message", error.message},
              {"subject", error.subject}};
}

inline Result<Error> error_from_json(const Json& json) {
  EXO_TRY(check_object(json, "error"));
  Error error;
  std::string code;
  EXO_TRY(need_field(json, "code", code));
  EXO_TRY(need_field(json, "message", error.message));
  EXO_TRY(read_field(json, "subject", error.subject));
  error.code = error_code_from(code);
  return error;
}

}  // namespace exo::protocol
