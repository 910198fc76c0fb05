#include "app/pid_lock.h"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json.h"
#include "core/strings.h"

namespace exo::app {
namespace {

constexpr std::size_t kMaxRecordBytes = 4096;

std::filesystem::path record_file(const Paths& paths) { return paths.cache / "exo.node"; }

// The pid in the file, for people; 0 if there is none.
pid_t read_pid(const std::filesystem::path& path) {
  const std::string text = read_file(path, kMaxRecordBytes).value_or("");
  const std::string_view digits = trim(text);
  pid_t pid = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return pid;
}

// Whether `fd` is still what `path` names: a node that ends removes the file that it holds.
bool is_same_file(int fd, const std::filesystem::path& path) {
  struct stat held{}, named{};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

Result<void> write_pid(int fd, const std::filesystem::path& path) {
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return fail_errno(errno, "cannot write the lock file", path);
  }
  return {};
}

bool is_held(const std::filesystem::path& pid_file) {
  const int fd = ::open(pid_file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

}  // namespace

std::string NodeRecord::url() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, port)
               : fmt::format("http://{}:{}", host, port);
}

PidLock::PidLock(int fd, std::filesystem::path pid_file, std::filesystem::path record_file)
    : fd_(fd), pid_file_(std::move(pid_file)), record_file_(std::move(record_file)) {}

PidLock::PidLock(PidLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      pid_file_(std::move(other.pid_file_)),
      record_file_(std::move(other.record_file_)) {}

PidLock& PidLock::operator=(PidLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(pid_file_, other.pid_file_);
  std::swap(record_file_, other.record_file_);
  return *this;
}

PidLock::~PidLock() {
  if (fd_ < 0) return;
  // Removed while still locked, so that nobody can lose a file that it has just locked.
  ::unlink(record_file_.c_str());
  ::unlink(pid_file_.c_str());
  ::close(fd_);
}

Result<PidLock> PidLock::take(const Paths& paths) {
  EXO_TRY(make_directories(paths.cache));
  const std::filesystem::path path = paths.pid_file();
  constexpr int kAttempts = 10;  // more than once only while another node is just ending
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return fail_errno(errno, "cannot open the lock file", path);
    PidLock lock(fd, path, record_file(paths));
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int lock_error = errno;
      lock.fd_ = -1;
      ::close(fd);
      if (lock_error != EWOULDBLOCK) return fail_errno(lock_error, "cannot lock the file", path);
      return fail(ErrorCode::kBusy,
                  fmt::format("a node already runs on this home as process {}; stop it, or give "
                              "this one a home of its own with EXO_HOME",
                              read_pid(path)));
    }
    if (is_same_file(fd, path)) {
      EXO_TRY(write_pid(fd, path));
      ::unlink(lock.record_file_.c_str());
      return lock;
    }
    lock.fd_ = -1;
    ::close(fd);
  }
  return fail(ErrorCode::kBusy, "the lock file keeps being replaced", path);
}

Result<void> PidLock::publish(const std::string& host, std::uint16_t port) const {
  const Json record{{"pid", ::getpid()}, {"host", host}, {"port", port}};
  return write_file(record_file_, dump_json(record), 0600);
}

std::optional<NodeRecord> find_node(const Paths& paths) {
  if (!is_held(paths.pid_file())) return std::nullopt;
  const auto text = read_file(record_file(paths), kMaxRecordBytes);
  if (!text) return std::nullopt;
  const auto json = parse_json(*text);
  if (!json || !json->is_object()) return std::nullopt;
  const auto host = json->find("host"), port = json->find("port"), pid = json->find("pid");
  if (host == json->end() || !host->is_string() || port == json->end() ||
      !port->is_number_unsigned() || pid == json->end() || !pid->is_number_integer()) {
    return std::nullopt;
  }
  return NodeRecord{.pid = pid->get<pid_t>(),
                    .host = host->get<std::string>(),
                    .port = port->get<std::uint16_t>()};
}

}  // namespace exo::app
