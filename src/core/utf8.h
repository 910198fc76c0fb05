// UTF-8: validation, the longest complete prefix of a stream, replacement of what can never become
// valid.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace exo {

bool is_valid_utf8(std::string_view text);

// Splits `text` into a part that may be emitted and a tail that may still become a character.
struct Utf8Split {
  std::string emit;  // valid UTF-8; bytes that can never become valid are U+FFFD, one per maximal
                     // invalid part
  std::size_t pending =
      0;  // how many bytes at the end of `text` are the beginning of a character, 0..3
};
Utf8Split split_utf8(std::string_view text);

// `text` with every invalid part replaced, an incomplete end included.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace exo
