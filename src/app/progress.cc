#include "app/progress.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

#include "core/strings.h"

namespace exo::app {
namespace {

double share_of(std::uint64_t done, std::uint64_t total) {
  if (total == 0) return 0;
  return static_cast<double>(std::min(done, total)) / static_cast<double>(total);
}

// What is over sooner needs no bar.
constexpr std::chrono::milliseconds kQuietTime{500};
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

std::string progress_line(const std::string& what, std::uint64_t done, std::uint64_t total,
                          std::size_t width) {
  if (total == 0) return fmt::format("{} {}", what, human_bytes(done));
  const double share = share_of(done, total);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return fmt::format("{} [{}{}] {:.0f}% of {}", what, std::string(filled, '#'),
                     std::string(width - filled, '-'), share * 100, human_bytes(total));
}

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      begun_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs(kEraseLine, stderr);
}

void ProgressBar::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (now - begun_ < kQuietTime) return;
  if (!on_terminal_) {
    if (total_bytes == 0 || share_of(done_bytes, total_bytes) * 4 < next_quarter_) return;
    next_quarter_ = static_cast<int>(share_of(done_bytes, total_bytes) * 4) + 1;
    fmt::print(stderr, "{} {:.0f}% of {}\n", what_, share_of(done_bytes, total_bytes) * 100,
               human_bytes(total_bytes));
    return;
  }
  if (last_drawn_ && now - *last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  drawn_ = true;
  fmt::print(stderr, "{}{}", kEraseLine, progress_line(what_, done_bytes, total_bytes));
}

}  // namespace exo::app
