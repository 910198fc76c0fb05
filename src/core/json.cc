#include "core/json.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

#include "core/json_sax.h"

namespace exo {
namespace {

// "line L, column C" of the `byte`-th character, counted from 1 as nlohmann does.
std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace

Result<Json> parse_json(std::string_view text, JsonLimits limits) {
  Json root;
  BoundedBuilder builder(root, limits.max_depth);
  try {
    if (!Json::sax_parse(text, &builder)) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("JSON is nested more than {} levels deep", limits.max_depth));
    }
  } catch (const Json::parse_error& error) {
    return fail(ErrorCode::kInvalidInput, "malformed JSON", position(text, error.byte));
  } catch (const Json::exception& error) {
    return fail(ErrorCode::kInvalidInput, fmt::format("malformed JSON: {}", error.what()));
  }
  return root;
}

std::string dump_json(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string pretty_json(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace exo
