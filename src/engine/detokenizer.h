// Ids → text as a stream that never breaks a character. Source: models.md 5.11.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tokenizer.h"

namespace exo::engine {

class Detokenizer {
 public:
  // `tokenizer` must outlive it. `keep_special`: special tokens appear in the text; else they are
  // left out.
  Detokenizer(const Tokenizer& tokenizer, bool keep_special);

  // The text that became complete with this token; may be empty.
  std::string push(std::uint32_t id);
  // The rest, with U+FFFD for what is incomplete.
  std::string finish();

 private:
  std::string push_whole_line(std::uint32_t id);

  const Tokenizer* tokenizer_;
  bool keep_special_;
  bool at_start_ = true;
  std::string pending_;              // bytes of an incomplete character
  std::vector<std::uint32_t> line_;  // kOther: ids of the current line
  std::string line_text_;
};

}  // namespace exo::engine
