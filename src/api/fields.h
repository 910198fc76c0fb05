// Typed fields of a client's JSON object. null equals absent; an integer field accepts 5 and 5.0.
// Source: api.md 1.6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace exo::api {

struct NumberRange {
  double low, high;
};
struct IntegerRange {
  std::int64_t low, high;
};

// Of `object`, whose own name is `path` ("" at the top). Errors: kInvalidInput; `subject` is the
// field, dotted.
class Fields {
 public:
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const Json* find(std::string_view name) const;  // nullptr: absent or null
  std::string name(std::string_view field) const;
  std::unexpected<Error> bad(std::string_view field, std::string message) const;

  Result<std::optional<bool>> boolean(std::string_view field) const;
  Result<std::optional<std::string>> text(std::string_view field) const;
  Result<std::optional<double>> number(std::string_view field, NumberRange range) const;
  Result<std::optional<std::int64_t>> integer(std::string_view field, IntegerRange range) const;

 private:
  const Json& object_;
  std::string path_;
};

// The integer that a JSON number is, if it is one.
std::optional<std::int64_t> whole_number(const Json& value);

}  // namespace exo::api
