#include "models/json_file.h"

#include <fmt/format.h>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/log.h"

namespace exo::models {

bool is_there(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::exists(file, error);
}

Result<Json> read_json_file(const std::filesystem::path& file, std::size_t max_bytes) {
  EXO_TRY(const std::string text, read_file(file, max_bytes));
  auto json = parse_json(text);
  if (!json)
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("{} is not JSON: {}", file.filename().string(), to_string(json.error())), file);
  if (!json->is_object())
    return fail(ErrorCode::kInvalidInput,
                fmt::format("{} is no JSON object", file.filename().string()), file);
  return json;
}

std::optional<Json> read_optional_json(const std::filesystem::path& file, std::size_t max_bytes) {
  if (!is_there(file)) return std::nullopt;
  auto json = read_json_file(file, max_bytes);
  if (!json) {
    log::warn("ignoring {}", to_string(json.error()));
    return std::nullopt;
  }
  return std::move(*json);
}

std::optional<std::uint32_t> token_id(const Json& json) {
  if (!json.is_number_unsigned() ||
      json.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return json.get<std::uint32_t>();
}

std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    const auto content = value.find("content");
    if (content != value.end() && content->is_string()) return content->get<std::string>();
  }
  return std::nullopt;
}

}  // namespace exo::models
