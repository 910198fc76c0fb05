#include "app/console.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "core/check.h"
#include "core/utf8.h"

namespace exo::app {

Result<std::string> read_all_input(std::size_t max_bytes) {
  std::string text;
  std::array<char, 65536> piece{};
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "cannot read the prompt from standard input");
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      return fail(ErrorCode::kInvalidInput, "the prompt on standard input is too long");
    }
  }
  if (!is_valid_utf8(text)) {
    return fail(ErrorCode::kInvalidInput, "the prompt on standard input is not valid UTF-8");
  }
  return text;
}

LineReader::LineReader() : wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  EXO_CHECK(wake_fd_ >= 0);
}

LineReader::~LineReader() { ::close(wake_fd_); }

void LineReader::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

LineReader::Line LineReader::read() {
  while (true) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return {.text = std::move(line)};
    }
    if (at_end_) {
      if (pending_.empty()) return {};
      return {.text = std::exchange(pending_, {})};
    }
    std::array<pollfd, 2> waits{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                 {.fd = wake_fd_, .events = POLLIN, .revents = 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;  // EINTR
    if (waits[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = ::read(wake_fd_, &count, sizeof count);
      pending_.clear();  // the terminal has thrown away the line that was being typed, too
      return {.text = std::nullopt, .interrupted = true};
    }
    std::array<char, 4096> piece{};
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) at_end_ = true;
    if (got > 0) pending_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace exo::app
