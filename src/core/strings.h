// Small text helpers that the standard library lacks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace exo {

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);  // ASCII white space
std::string to_lower_ascii(std::string_view text);

// "98.4 MB", "1.2 GB": decimal units, three significant digits.
std::string human_bytes(std::uint64_t bytes);

}  // namespace exo
