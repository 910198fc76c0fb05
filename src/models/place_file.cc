#include "models/place_file.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

#include "core/descriptor.h"

namespace exo::models {
namespace {

using std::filesystem::path;

Result<void> copy_bytes(int source, int target, const path& from, const path& to,
                        const std::function<void(std::uint64_t)>& progress) {
  constexpr std::size_t kPiece = 4 << 20;
  std::vector<char> buffer(kPiece);
  while (true) {
    const ssize_t got = ::read(source, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "cannot read the file", from);
    if (got == 0) break;
    EXO_TRY(write_all(target, {buffer.data(), static_cast<std::size_t>(got)}, to));
    if (progress) progress(static_cast<std::uint64_t>(got));
  }
  // A full disk may show only now.
  if (::fsync(target) != 0) return fail_errno(errno, "cannot write the file", to);
  return {};
}

}  // namespace

Result<bool> link_file(const path& from, const path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (source.get() < 0) return fail_errno(errno, "cannot open the file", from);
  const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (target.get() < 0) return fail_errno(errno, "cannot create the file", to);
  if (::ioctl(target.get(), FICLONE, source.get()) == 0) return true;
  ::unlink(to.c_str());
  return false;
}

Result<void> place_file(const path& from, const path& to,
                        const std::function<void(std::uint64_t)>& progress) {
  EXO_TRY(const bool linked, link_file(from, to));
  if (linked) return {};
  const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (source.get() < 0) return fail_errno(errno, "cannot open the file", from);
  Result<void> result;
  {
    const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (target.get() < 0) return fail_errno(errno, "cannot create the file", to);
    result = copy_bytes(source.get(), target.get(), from, to, progress);
  }
  if (!result) ::unlink(to.c_str());
  return result;
}

}  // namespace exo::models
