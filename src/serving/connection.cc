// The runner's end of the socket.
#include "serving/connection.h"

#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/log.h"
#include "protocol/frame.h"

namespace exo::serving {

// Two more than generations: Hello and LoadModel.
Connection::Connection(int socket_fd, std::function<void(int exit_code)> on_end)
    : socket_(socket_fd), on_end_(std::move(on_end)), tasks_(kMaxQueued + 2) {
  reader_ = std::jthread([this] { read_all(); });
}

Connection::~Connection() {
  closing_ = true;
  tasks_.close();
  ::shutdown(socket_, SHUT_RD);  // wakes the reader; what was sent still arrives
  reader_.join();
  ::close(socket_);
}

void Connection::send(const protocol::Report& report) {
  const auto frame = protocol::encode_frame(protocol::to_json(report));
  if (!frame) {
    log::error("a report could not be sent: {}", to_string(frame.error()));
    return;
  }
  MutexLock lock(write_mutex_);
  std::size_t sent = 0;
  while (sent < frame->size()) {
    const ssize_t count = ::send(socket_, frame->data() + sent, frame->size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

void Connection::send_chunk(const TaskId& id, protocol::Chunk chunk) {
  if (protocol::is_terminal(chunk)) --pending_;
  send(protocol::TaskChunk{.id = id, .chunk = std::move(chunk)});
}

std::set<TaskId> Connection::take_cancelled() {
  MutexLock lock(cancel_mutex_);
  return std::exchange(cancelled_, {});
}

void Connection::read_all() {
  protocol::FrameReader frames;
  std::array<std::byte, 65536> buffer;
  while (!closing_) {
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (!closing_) on_end_(0);
      return;
    }
    frames.append(std::span(buffer).first(static_cast<std::size_t>(count)));
    for (;;) {
      Result<std::optional<Json>> frame = frames.next();
      if (frame && !*frame) break;
      Result<protocol::Task> task =
          frame ? protocol::task_from(**frame) : std::unexpected(frame.error());
      if (!task) {
        log::error("the node sent nonsense: {}", to_string(task.error()));
        return on_end_(1);
      }
      if (!take(*std::move(task))) return on_end_(0);
    }
  }
}

// False: this was the request to end.
bool Connection::take(protocol::Task task) {
  if (std::holds_alternative<protocol::Shutdown>(task)) return false;
  if (const auto* cancel = std::get_if<protocol::Cancel>(&task)) {
    MutexLock lock(cancel_mutex_);
    if (cancelled_.size() < kMaxQueued) cancelled_.insert(cancel->id);
    return true;
  }
  const auto* generate = std::get_if<protocol::Generate>(&task);
  if (generate == nullptr) {
    // More than Hello and LoadModel is nothing that a node sends.
    if (!tasks_.try_push(std::move(task))) log::error("the queue of tasks is full");
    return true;
  }
  const TaskId id = generate->id;
  const bool room = ++pending_ <= kMaxQueued;
  if (!room || !tasks_.try_push(std::move(task))) {
    send_chunk(id, protocol::ErrorChunk{.error = Error{.code = ErrorCode::kBusy,
                                                       .message = "the runner's queue is full"}});
  }
  return true;
}

}  // namespace exo::serving
