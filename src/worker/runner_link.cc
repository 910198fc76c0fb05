// One running runner process.
#include "worker/runner_link.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <span>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/log.h"

namespace exo::worker {

Result<std::unique_ptr<RunnerLink>> RunnerLink::start(const std::vector<std::string>& command,
                                                      const std::string& name) {
  constexpr std::size_t kKeptLines = 4;
  std::array<int, 2> sockets = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    return fail_errno(errno, "no socket could be made for a runner");
  const auto [ours, theirs] = sockets;
  ::fcntl(ours, F_SETFL, ::fcntl(ours, F_GETFL) | O_NONBLOCK);
  auto evidence = std::make_shared<Evidence>();
  SubprocessOptions options;
  options.arguments = command;
  options.arguments.emplace_back("--socket-fd");
  options.arguments.push_back(std::to_string(theirs));
  options.inherited_descriptors = {theirs};
  options.on_stderr = [evidence, name](std::string line) {
    log::info("[{}] {}", name, line);
    MutexLock lock(evidence->mutex);
    evidence->lines.push_back(std::move(line));
    if (evidence->lines.size() > kKeptLines) evidence->lines.pop_front();
  };
  Result<Subprocess> process = Subprocess::start(std::move(options));
  ::close(theirs);
  if (!process) {
    ::close(ours);
    return std::unexpected(std::move(process).error());
  }
  return std::unique_ptr<RunnerLink>(
      new RunnerLink(ours, *std::move(process), std::move(evidence)));
}

RunnerLink::RunnerLink(int socket, Subprocess process, std::shared_ptr<Evidence> evidence)
    : socket_(socket), process_(std::move(process)), evidence_(std::move(evidence)) {}

RunnerLink::~RunnerLink() { ::close(socket_); }

Result<void> RunnerLink::send(const protocol::Task& task) {
  EXO_TRY(const std::vector<std::byte> frame, protocol::encode_frame(protocol::to_json(task)));
  outgoing_.insert(outgoing_.end(), frame.begin(), frame.end());
  flush();
  return {};
}

void RunnerLink::flush() {
  while (wants_to_write()) {
    const ssize_t count =
        ::send(socket_, outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) break;  // the reading side will see the end
    sent_ += static_cast<std::size_t>(count);
  }
  outgoing_.clear();
  sent_ = 0;
}

bool RunnerLink::receive() {
  std::array<std::byte, 65536> buffer;
  for (;;) {
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (count == 0) return false;
    frames_.append(std::span(buffer).first(static_cast<std::size_t>(count)));
    return true;  // poll() says whether there is more
  }
}

Result<std::optional<protocol::Report>> RunnerLink::next() {
  EXO_TRY(const std::optional<Json> frame, frames_.next());
  if (!frame) return std::nullopt;
  EXO_TRY(protocol::Report report, protocol::report_from(*frame));
  return std::optional<protocol::Report>(std::move(report));
}

ExitStatus RunnerLink::end(std::chrono::milliseconds grace) {
  if (const auto status = process_.wait_for(grace)) return *status;
  process_.send_signal(SIGKILL);
  return process_.wait();
}

std::string RunnerLink::last_lines() const {
  MutexLock lock(evidence_->mutex);
  std::string text;
  for (const std::string& line : evidence_->lines) text += (text.empty() ? "" : " | ") + line;
  return text.empty() ? text : "; it said: " + text;
}

}  // namespace exo::worker
