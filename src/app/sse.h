// Server-sent events: bytes of a stream → the data of each event. Source: WHATWG HTML, 9.2.6.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace exo::app {

class SseParser {
 public:
  // The events that became whole. Comments (keep-alives) and fields other than `data` are skipped.
  std::vector<std::string> push(std::string_view bytes);

 private:
  std::string pending_;  // an incomplete line
  std::string data_;     // of the event under way, a line feed after each line
};

}  // namespace exo::app
