// Progress for people on standard error: a bar on a terminal, a line per quarter elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace exo::app {

class ProgressBar {
 public:
  // `what`: as in "importing smollm2".
  explicit ProgressBar(std::string what);
  // Removes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second, and nothing in the first half second. A total of 0 is
  // unknown.
  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  std::string what_;
  bool on_terminal_;
  std::chrono::steady_clock::time_point begun_;
  bool drawn_ = false;
  int next_quarter_ = 1;
  std::optional<std::chrono::steady_clock::time_point> last_drawn_;
};

// "importing smollm2 [#####---------------] 25% of 98.4 MB": `width` characters between the
// brackets.
std::string progress_line(const std::string& what, std::uint64_t done, std::uint64_t total,
                          std::size_t width = 30);

}  // namespace exo::app
