// The Json type and bounded parsing. Keys keep their order, since a user's JSON may reach a chat
// template.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/result.h"

namespace exo {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t max_depth =
      128;  // nesting of arrays and objects; deeper text is refused, not recursed into
};

// Parses one JSON text (UTF-8). Errors: kInvalidInput for malformed, too deep or non-UTF-8 text,
// lone surrogates, and trailing characters; `subject` is "line L, column C". Of duplicate keys the
// last wins.
Result<Json> parse_json(std::string_view text, JsonLimits limits = {});

// One line of JSON; bytes that are not UTF-8 become U+FFFD instead of throwing.
std::string dump_json(const Json& json);
// The same over several lines, two spaces deep.
std::string pretty_json(const Json& json);

}  // namespace exo
