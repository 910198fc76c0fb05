#include "core/subprocess.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "core/check.h"
#include "core/utf8.h"

extern char** environ;  // NOLINT: POSIX

namespace exo {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  return Pipe{ends[0], ends[1]};
}

void close_end(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// Hands over the lines of `fd` until its end, then closes it. A line without end is cut at 64 KiB.
void read_lines(int fd, const std::function<void(std::string)>& on_line) {
  constexpr std::size_t kMaxLine = 64 << 10;
  std::string pending;
  std::string buffer(kMaxLine, '\0');
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    pending.append(buffer, 0, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
      on_line(replace_invalid_utf8(pending.substr(begin, end - begin)));
    }
    pending.erase(0, begin);
    if (pending.size() >= kMaxLine) on_line(replace_invalid_utf8(std::exchange(pending, {})));
  }
  if (!pending.empty()) on_line(replace_invalid_utf8(pending));
  ::close(fd);
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view key = text.substr(0, text.find('='));
    if (std::ranges::none_of(changes, [&](const auto& change) { return change.first == key; })) {
      merged.emplace_back(text);
    }
  }
  for (const auto& [key, value] : changes) merged.push_back(key + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Everything that the child does between fork and exec: only calls that are safe there, no
// allocation.
struct ChildPlan {
  char** argv;
  char** envp;
  int out = -1, err = -1;
  int report;             // receives errno if exec fails
  const int* kept_begin;  // sorted
  const int* kept_end;
  bool dies_with_parent;
  pid_t parent;
};

void close_from(int first, int last) {
  if (first <= last)
    ::syscall(SYS_close_range, static_cast<unsigned>(first), static_cast<unsigned>(last), 0U);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  if (plan.dies_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);
  }
  if (plan.out >= 0) ::dup2(plan.out, STDOUT_FILENO);
  if (plan.err >= 0) ::dup2(plan.err, STDERR_FILENO);
  int next = STDERR_FILENO + 1;
  for (const int* kept = plan.kept_begin; kept != plan.kept_end; ++kept) {
    if (*kept < next) continue;
    if (plan.report >= next && plan.report < *kept) {
      close_from(next, plan.report - 1);
      close_from(plan.report + 1, *kept - 1);
    } else {
      close_from(next, *kept - 1);
    }
    ::fcntl(*kept, F_SETFD, 0);
    next = *kept + 1;
  }
  if (plan.report >= next) {
    close_from(next, plan.report - 1);
    next = plan.report + 1;
  }
  ::syscall(SYS_close_range, static_cast<unsigned>(next), ~0U, 0U);
  ::execve(plan.argv[0], plan.argv, plan.envp);
  const int error_number = errno;
  [[maybe_unused]] const ssize_t written = ::write(plan.report, &error_number, sizeof error_number);
  ::_exit(127);
}

ExitStatus decode(int status) {
  if (WIFSIGNALED(status)) return {.code = 0, .signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status), .signal = 0};
}

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.signal != 0) {
    return "signal " + std::to_string(status.signal) + " (" + strsignal(status.signal) + ")";
  }
  return "exit code " + std::to_string(status.code);
}

struct Subprocess::State {
  pid_t pid = -1;
  std::optional<ExitStatus> status;
  std::vector<std::jthread> readers;
};

Subprocess::Subprocess(std::unique_ptr<State> state) : state_(std::move(state)) {}
Subprocess::Subprocess(Subprocess&&) noexcept = default;

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this != &other) {
    if (state_ && !state_->status) stop(std::chrono::milliseconds(0));
    state_ = std::move(other.state_);
  }
  return *this;
}

Subprocess::~Subprocess() {
  if (state_ && !state_->status) stop(std::chrono::milliseconds(0));
}

Result<Subprocess> Subprocess::start(SubprocessOptions options) {
  EXO_CHECK(!options.arguments.empty());
  Pipe out, err;
  EXO_TRY(Pipe report, make_pipe());
  if (options.on_stdout) {
    EXO_TRY(out, make_pipe());
  }
  if (options.on_stderr) {
    EXO_TRY(err, make_pipe());
  }

  std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> argv = pointers(options.arguments), envp = pointers(environment);
  std::ranges::sort(options.inherited_descriptors);
  const ChildPlan plan{
      .argv = const_cast<char**>(argv.data()),
      .envp = const_cast<char**>(envp.data()),
      .out = out.write,
      .err = err.write,
      .report = report.write,
      .kept_begin = options.inherited_descriptors.data(),
      .kept_end = options.inherited_descriptors.data() + options.inherited_descriptors.size(),
      .dies_with_parent = options.dies_with_parent,
      .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid == 0) run_child(plan);
  const int fork_error = errno;
  close_end(report.write);
  close_end(out.write);
  close_end(err.write);

  auto state = std::make_unique<State>();
  state->pid = pid;
  if (out.read >= 0)
    state->readers.emplace_back(read_lines, out.read, std::move(options.on_stdout));
  if (err.read >= 0)
    state->readers.emplace_back(read_lines, err.read, std::move(options.on_stderr));
  Subprocess child(std::move(state));
  if (pid < 0) {
    child.state_->status = ExitStatus{};
    close_end(report.read);
    return fail_errno(fork_error, "cannot start a process", options.arguments[0]);
  }
  int exec_error = 0;
  ssize_t got;
  while ((got = ::read(report.read, &exec_error, sizeof exec_error)) < 0 && errno == EINTR) {
  }
  close_end(report.read);
  if (got == sizeof exec_error) {
    child.wait();
    return fail_errno(exec_error, "cannot execute the program", options.arguments[0]);
  }
  return child;
}

pid_t Subprocess::pid() const { return state_->pid; }

void Subprocess::send_signal(int signal_number) {
  if (!state_->status) ::kill(state_->pid, signal_number);
}

std::optional<ExitStatus> Subprocess::wait_for(std::chrono::milliseconds limit) {
  if (state_->status) return state_->status;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int raw = 0;
  pid_t reaped;
  // The kernel offers no timed wait for a child without a pidfd; polling every 2 ms costs nothing
  // noticeable.
  while ((reaped = ::waitpid(state_->pid, &raw, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  state_->status = reaped == state_->pid ? decode(raw) : ExitStatus{};
  state_->readers
      .clear();  // joins: a grandchild that holds the pipe keeps us here, so children start none
  return state_->status;
}

ExitStatus Subprocess::wait() {
  while (true) {
    if (const auto status = wait_for(std::chrono::hours(1))) return *status;
  }
}

ExitStatus Subprocess::stop(std::chrono::milliseconds grace) {
  if (state_->status) return *state_->status;
  if (grace > std::chrono::milliseconds(0)) {
    send_signal(SIGTERM);
    if (const auto status = wait_for(grace)) return *status;
  }
  send_signal(SIGKILL);
  return wait();
}

}  // namespace exo
