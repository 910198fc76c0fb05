#include "app/sse.h"

#include <utility>

namespace exo::app {

std::vector<std::string> SseParser::push(std::string_view bytes) {
  std::vector<std::string> events;
  pending_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view line = std::string_view(pending_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) {
      if (!data_.empty()) {
        data_.pop_back();
        events.push_back(std::exchange(data_, {}));
      }
    } else if (line.starts_with("data:")) {
      line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
      data_ += line;
      data_ += '\n';
    }
  }
  pending_.erase(0, begin);
  return events;
}

}  // namespace exo::app
