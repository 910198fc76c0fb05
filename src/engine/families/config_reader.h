// Values of a config.json, checked: type, range, and one sentence that names the key when wrong.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace exo::engine::families {

struct SizeRange {
  std::size_t low = 1, high = 1;
};
struct NumberRange {
  double low = 0, high = 0;  // both included
};

// A key that is missing or null has its fallback; without a fallback it is an error. Borrows the
// object. Errors: kInvalidInput, `subject` is the key (behind `prefix`).
class ConfigReader {
 public:
  explicit ConfigReader(const Json& object, std::string prefix = {});

  bool has(std::string_view key) const;  // present and not null
  Result<std::size_t> size(std::string_view key, SizeRange range,
                           std::optional<std::size_t> fallback = {}) const;
  Result<double> number(std::string_view key, NumberRange range,
                        std::optional<double> fallback = {}) const;
  Result<bool> flag(std::string_view key, bool fallback) const;
  Result<std::string> text(std::string_view key, std::optional<std::string> fallback = {}) const;

  std::unexpected<Error> wrong(std::string_view key, std::string_view must) const;

 private:
  const Json* find(std::string_view key) const;

  const Json* object_;
  std::string prefix_;
};

// A text from outside between quotes, cut to a length that fits into a message.
std::string in_quotes(std::string_view text);

}  // namespace exo::engine::families
