#include "core/file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/id.h"

namespace exo {

Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return fail_errno(errno, "cannot open the file", path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return fail_errno(errno, "cannot read the file", path);
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kInvalidInput, "not a regular file", path);

  std::string content;
  constexpr std::size_t kStep = 1 << 20;
  while (true) {
    const std::size_t filled = content.size();
    if (filled > max_bytes) return fail(ErrorCode::kInvalidInput, "the file is too long", path);
    content.resize(filled + kStep);
    const ssize_t got = ::read(file.get(), content.data() + filled, kStep);
    content.resize(filled + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) return fail_errno(errno, "cannot read the file", path);
  }
}

Result<void> make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail_errno(error.value(), "cannot create the directory", path);
  return {};
}

Result<Descriptor> create_file(const std::filesystem::path& path, unsigned mode) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) return fail_errno(errno, "cannot create the file", path);
  return file;
}

Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        unsigned mode) {
  if (path.has_parent_path()) EXO_TRY(make_directories(path.parent_path()));
  const std::string temporary = path.string() + ".tmp-" + random_hex(8);
  Result<void> result;
  {
    const auto file = create_file(temporary, mode);
    if (!file) return fail(file.error().code, file.error().message, path);
    result = write_all(file->get(), content, path);
    if (result && ::fsync(file->get()) != 0)
      result = fail_errno(errno, "cannot write the file", path);
  }
  if (result && ::rename(temporary.c_str(), path.c_str()) != 0) {
    result = fail_errno(errno, "cannot replace the file", path);
  }
  if (!result) ::unlink(temporary.c_str());
  return result;
}

}  // namespace exo
