// Stop strings across tokens: holds back text that may be the beginning of one, with the
// log-probabilities that belong to it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/chunk.h"

namespace exo::serving {

class StopFilter {
 public:
  struct Output {
    protocol::TokenChunk chunk = {};          // what became visible; may be without text
    std::optional<std::string> stopped = {};  // the stop string that ended it
  };

  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds a token's text (may be empty) and its entry. After a stop nothing more is taken.
  Output push(std::string text, std::optional<protocol::TokenChunk::Entry> entry);
  // What was held back, at the end of the generation.
  protocol::TokenChunk flush();

 private:
  struct Held {
    std::size_t end = 0;  // the token's text ends here in held_
    protocol::TokenChunk::Entry entry = {};
  };

  protocol::TokenChunk release(std::size_t length);

  std::vector<std::string> stops_;
  std::string held_;
  std::deque<Held> entries_;
};

}  // namespace exo::serving
