// What the fuzzers share: an input cut into parts, and files that the readers can map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "core/check.h"
#include "core/descriptor.h"
#include "core/log.h"

namespace exo::fuzz {

// The input as text, which libFuzzer frees after the call.
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string_view()
                   : std::string_view(reinterpret_cast<const char*>(data), size);
}

// Cuts `input` at the first `count - 1` record separators (byte 0x1E, which no text of ours needs);
// parts that are missing are empty.
inline std::vector<std::string_view> parts_of(std::string_view input, std::size_t count) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const std::size_t end = input.find('\x1E');
    parts.push_back(input.substr(0, end));
    input = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
  }
  parts.push_back(input);
  return parts;
}

// What is logged about bad input would drown libFuzzer's own lines.
inline const bool kQuiet = (spdlog::set_level(spdlog::level::off), true);

// A file in memory under a path: what is written replaces all that was there.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : file_(::memfd_create(name, MFD_CLOEXEC)) {
    EXO_CHECK(file_.get() >= 0);
    path_ = "/proc/self/fd/" + std::to_string(file_.get());
  }

  void write(std::string_view content) {
    EXO_CHECK(::ftruncate(file_.get(), 0) == 0);
    const ssize_t written = ::pwrite(file_.get(), content.data(), content.size(), 0);
    EXO_CHECK(written == static_cast<ssize_t>(content.size()));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace exo::fuzz
