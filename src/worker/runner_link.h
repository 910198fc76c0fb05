// One running runner process and the socket to it: frames in and out without blocking, and what its
// standard error said last.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/result.h"
#include "core/subprocess.h"
#include "protocol/frame.h"
#include "protocol/task.h"

namespace exo::worker {

// Used by one thread. Destruction kills the process.
class RunnerLink {
 public:
  // Errors: as Subprocess::start(); kIo: no socket.
  static Result<std::unique_ptr<RunnerLink>> start(const std::vector<std::string>& command,
                                                   const std::string& name);
  ~RunnerLink();
  RunnerLink(const RunnerLink&) = delete;
  RunnerLink& operator=(const RunnerLink&) = delete;

  int descriptor() const { return socket_; }
  bool wants_to_write() const { return sent_ < outgoing_.size(); }
  // Queues a frame and writes what the socket takes. Errors: kInvalidInput: too long.
  Result<void> send(const protocol::Task& task);
  void flush();

  // Reads what is there. False: the other side has ended.
  bool receive();
  // The next whole report. Errors: kInvalidInput: nonsense.
  Result<std::optional<protocol::Report>> next();

  // Ends the process: after `grace` by force.
  ExitStatus end(std::chrono::milliseconds grace);
  std::string last_lines() const;  // "" or "; it said: …"

 private:
  // What the reading thread of the process's standard error writes to.
  struct Evidence {
    mutable Mutex mutex;
    std::deque<std::string> lines EXO_GUARDED_BY(mutex);
  };

  RunnerLink(int socket, Subprocess process, std::shared_ptr<Evidence> evidence);

  int socket_;
  Subprocess process_;
  std::shared_ptr<Evidence> evidence_;
  protocol::FrameReader frames_;
  std::vector<std::byte> outgoing_;
  std::size_t sent_ = 0;
};

}  // namespace exo::worker
