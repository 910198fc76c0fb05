// JSON files of a model's directory, bounded, and the values that several of them share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/json.h"
#include "core/result.h"

namespace exo::models {

inline constexpr std::size_t kMaxConfigBytes = 16 << 20;
inline constexpr std::size_t kMaxTokenizerBytes = 256 << 20;

bool is_there(const std::filesystem::path& file);

// A JSON object. Errors: as read_file(); kInvalidInput: not JSON, or no object.
Result<Json> read_json_file(const std::filesystem::path& file, std::size_t max_bytes);

// An optional file: nothing if it is absent or no JSON object, the latter with a warning.
std::optional<Json> read_optional_json(const std::filesystem::path& file, std::size_t max_bytes);

// A token's id; nothing for what cannot be one.
std::optional<std::uint32_t> token_id(const Json& json);

// The text of a special token, which may be a string or {"content": …}.
std::optional<std::string> token_text(const Json& value);

}  // namespace exo::models
