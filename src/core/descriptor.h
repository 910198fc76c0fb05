// Owns a file descriptor.
#pragma once

#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "core/result.h"

namespace exo {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // -1: none
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Writes all of `content`. Errors: kNoSpace, kIo; `subject` is the file's name.
Result<void> write_all(int fd, std::string_view content, const std::string& subject);

}  // namespace exo
