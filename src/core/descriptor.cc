#include "core/descriptor.h"

#include <cerrno>

namespace exo {

Result<void> write_all(int fd, std::string_view content, const std::string& subject) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, "cannot write the file", subject);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace exo
