#include "core/utf8.h"

#include <algorithm>

namespace exo {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Lead {
  std::size_t length;       // 0: no character begins with this byte
  unsigned char low, high;  // the range of the second byte; later ones are 0x80..0xBF
};

// Unicode 16, table 3-7: well-formed UTF-8 byte sequences.
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

enum class Part { kCharacter, kInvalid, kIncomplete };
struct Next {
  Part part;
  std::size_t length;
};

// What stands at the beginning of `text` (not empty): a character, a maximal invalid part, or the
// beginning of a character.
Next next(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {Part::kInvalid, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Part::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Part::kInvalid, i};
  }
  return {Part::kCharacter, lead.length};
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Next found = next(text);
    if (found.part != Part::kCharacter) return false;
    text.remove_prefix(found.length);
  }
  return true;
}

Utf8Split split_utf8(std::string_view text) {
  Utf8Split result;
  while (!text.empty()) {
    const Next found = next(text);
    if (found.part == Part::kIncomplete) {
      result.pending = found.length;
      break;
    }
    result.emit += found.part == Part::kCharacter ? text.substr(0, found.length) : kReplacement;
    text.remove_prefix(found.length);
  }
  return result;
}

std::string replace_invalid_utf8(std::string_view text) {
  Utf8Split result = split_utf8(text);
  if (result.pending > 0) result.emit += kReplacement;
  return std::move(result.emit);
}

}  // namespace exo
