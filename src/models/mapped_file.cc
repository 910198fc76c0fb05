#include "models/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace exo::models {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

struct MappedFile::State {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::filesystem::path path;

  ~State() {
    if (data != nullptr) ::munmap(data, size);
  }
};

MappedFile::MappedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;
MappedFile::~MappedFile() = default;

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_errno(errno, "cannot open the file", path);
  struct stat info{};
  void* memory = MAP_FAILED;
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (regular && info.st_size > 0) {
    memory = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  }
  const int error_number = errno;
  ::close(fd);  // the mapping stays
  if (!regular) return fail(ErrorCode::kInvalidInput, "not a regular file", path);
  if (info.st_size == 0) return fail(ErrorCode::kInvalidInput, "the file is empty", path);
  if (memory == MAP_FAILED)
    return fail_errno(error_number, "cannot map the file into memory", path);
  auto state = std::make_unique<State>();
  state->data = static_cast<std::byte*>(memory);
  state->size = static_cast<std::size_t>(info.st_size);
  state->path = path;
  return MappedFile(std::move(state));
}

std::span<const std::byte> MappedFile::bytes() const { return {state_->data, state_->size}; }
const std::filesystem::path& MappedFile::path() const { return state_->path; }

void MappedFile::drop(std::span<const std::byte> part) const {
  // Only pages that lie wholly inside: others may still be needed by a neighbour.
  const std::size_t begin =
      (static_cast<std::size_t>(part.data() - state_->data) + kPage - 1) / kPage * kPage;
  const std::size_t end =
      static_cast<std::size_t>(part.data() - state_->data + part.size()) / kPage * kPage;
  if (begin < end) ::madvise(state_->data + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::will_need() const { ::madvise(state_->data, state_->size, MADV_WILLNEED); }

}  // namespace exo::models
