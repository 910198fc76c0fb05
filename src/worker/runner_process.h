// Supervises one model's runner process: starts it, loads the model, carries requests and chunks,
// notices its death, restarts it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/id.h"
#include "core/result.h"
#include "protocol/protocol.h"

namespace exo::worker {

class Supervisor;

struct RunnerProcessOptions {
  std::vector<std::string> command = {};  // program and arguments; "--socket-fd N" is appended
  std::string model_path = {};
  ModelId model = {};
  std::size_t max_queued = 512;  // generations without their terminal chunk
  // How long the runner may stay silent before it is taken for hung.
  std::chrono::milliseconds load_limit = std::chrono::seconds(400);
  std::chrono::milliseconds answer_limit = std::chrono::seconds(60);
};

// Thread-safe.
class RunnerProcess {
 public:
  using OnChunk = std::function<void(protocol::Chunk chunk)>;

  // Starts the supervising thread, which starts the process; waits for neither. `clock` must
  // outlive it. Errors: kInvalidInput: no command; kIo: no pipe.
  static Result<std::unique_ptr<RunnerProcess>> start(RunnerProcessOptions options,
                                                      const Clock& clock);
  // Ends every generation with an ErrorChunk (kUnavailable), asks the process to end, kills it
  // after 2 s. No callback runs once it has returned.
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  // Queues a generation; it is sent once the model is ready. `on_chunk` runs on the supervising
  // thread, the last time with a terminal chunk; it may call generate() and cancel(). Errors:
  // kBusy: the queue is full; kAlreadyExists: the id is in use; kUnavailable: the runner was given
  // up.
  Result<void> generate(TaskId id, protocol::TextRequest request, OnChunk on_chunk);
  // The terminal chunk follows.
  void cancel(const TaskId& id);

  // Why requests cannot be served; empty while they can, or may soon.
  std::string problem() const;
  bool ready() const;
  protocol::LoadedModel loaded() const;

 private:
  explicit RunnerProcess(std::shared_ptr<Supervisor> supervisor);
  std::shared_ptr<Supervisor> supervisor_;  // shared with its thread
  std::thread thread_;
};

}  // namespace exo::worker
