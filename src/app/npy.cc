#include "app/npy.h"

#include <bit>
#include <cerrno>
#include <fmt/format.h>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace exo::app {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers are written as they lie");

// The magic, the version, and a dictionary padded so that the data begins at a multiple of 64.
std::string header(std::size_t rows, std::size_t cols) {
  constexpr std::size_t kPreamble = 10, kAlignment = 64;
  std::string dictionary =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const std::size_t unpadded = kPreamble + dictionary.size() + 1;
  dictionary.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(dictionary.size() & 0xFF);
  bytes += static_cast<char>(dictionary.size() >> 8);
  return bytes + dictionary;
}

}  // namespace

NpyWriter::NpyWriter(std::filesystem::path path, std::filesystem::path temporary)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      out_(temporary_, std::ios::binary | std::ios::trunc) {}

Result<NpyWriter> NpyWriter::create(const std::filesystem::path& path, std::size_t rows,
                                    std::size_t cols) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.part", ::getpid());
  errno = 0;
  NpyWriter writer(path, std::move(temporary));
  if (!writer.out_) return fail_errno(errno, "cannot write the file", path);
  const std::string head = header(rows, cols);
  EXO_TRY(writer.put(head.data(), head.size()));
  return writer;
}

NpyWriter::~NpyWriter() {
  if (temporary_.empty()) return;
  out_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

Result<void> NpyWriter::write(std::span<const float> values) {
  return put(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

Result<void> NpyWriter::put(const char* data, std::size_t size) {
  errno = 0;
  if (!out_.write(data, static_cast<std::streamsize>(size)))
    return fail_errno(errno, "cannot write the file", path_);
  return {};
}

Result<void> NpyWriter::finish() {
  errno = 0;
  out_.close();
  if (!out_) return fail_errno(errno, "cannot write the file", path_);
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) return fail_errno(error.value(), "cannot write the file", path_);
  temporary_.clear();
  return {};
}

}  // namespace exo::app
