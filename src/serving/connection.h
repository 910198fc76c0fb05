// The runner's end of the socket: whole reports out, decoded tasks in.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <set>
#include <thread>

#include "core/id.h"
#include "core/mutex.h"
#include "core/queue.h"
#include "protocol/task.h"

namespace exo::serving {

inline constexpr std::size_t kMaxQueued = 600;

class Connection {
 public:
  // Owns `socket_fd` and starts the reading thread. `on_end` runs on it when the other side asked
  // for the end or is gone (exit code 0) or sent nonsense (1); not after close().
  Connection(int socket_fd, std::function<void(int exit_code)> on_end);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // On any thread. A peer that is gone shows on the reading side.
  void send(const protocol::Report& report) EXO_EXCLUDES(write_mutex_);
  // A terminal chunk makes room for another generation.
  void send_chunk(const TaskId& id, protocol::Chunk chunk);

  // Everything but Cancel and Shutdown, in order.
  std::optional<protocol::Task> wait() { return tasks_.pop(); }
  std::optional<protocol::Task> poll() { return tasks_.try_pop(); }
  // The ids that were to be cancelled since the last call. Their Generate was queued before.
  std::set<TaskId> take_cancelled() EXO_EXCLUDES(cancel_mutex_);

 private:
  void read_all();
  bool take(protocol::Task task);

  const int socket_;
  const std::function<void(int)> on_end_;
  std::atomic<bool> closing_ = false;
  std::atomic<std::size_t> pending_ = 0;  // generations without their terminal chunk
  Queue<protocol::Task> tasks_;
  Mutex write_mutex_;
  Mutex cancel_mutex_;
  std::set<TaskId> cancelled_ EXO_GUARDED_BY(cancel_mutex_);
  std::jthread reader_;
};

}  // namespace exo::serving
