// What the supervising thread of a RunnerProcess does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "worker/runner_link.h"
#include "worker/runner_process.h"

namespace exo::worker {

class Supervisor {
 public:
  using OnChunk = RunnerProcess::OnChunk;

  // `wake` is an eventfd, owned.
  Supervisor(RunnerProcessOptions options, const Clock& clock, int wake);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  void run();  // the thread's body, until stop()
  // `silently`: without a word to those who wait.
  void stop(bool silently) EXO_EXCLUDES(mutex_);

  Result<void> generate(TaskId id, protocol::TextRequest request, OnChunk on_chunk)
      EXO_EXCLUDES(mutex_);
  void cancel(const TaskId& id) EXO_EXCLUDES(mutex_);
  std::string problem() const EXO_EXCLUDES(mutex_);
  bool ready() const EXO_EXCLUDES(mutex_);
  protocol::LoadedModel loaded() const EXO_EXCLUDES(mutex_);

 private:
  enum class Wanted : std::uint8_t { kNow, kOnRequest, kNever };
  struct Entry {
    std::optional<protocol::TextRequest> request = {};  // until it is sent
    std::shared_ptr<const OnChunk> on_chunk = {};
    bool cancelled = false;
  };

  bool stopping() const EXO_EXCLUDES(mutex_);
  void wake() const;
  void wait_for_events();
  void launch_if_due();
  void send_waiting() EXO_EXCLUDES(mutex_);
  void send_cancels() EXO_EXCLUDES(mutex_);
  void read_reports();
  Result<void> handle(protocol::Report report);
  void handle_status(const protocol::RunnerStatus& status) EXO_EXCLUDES(mutex_);
  void watch();
  void kill_for(const std::string& reason);
  void crashed(const std::string& how, bool memory_hint);
  void load_failed(const Error& reason) EXO_EXCLUDES(mutex_);
  void schedule_restart(const std::string& why) EXO_EXCLUDES(mutex_);
  void deliver(const TaskId& id, protocol::Chunk chunk) EXO_EXCLUDES(mutex_);
  // ErrorChunk to those that were sent, or to all.
  void fail_tasks(const Error& error, bool all) EXO_EXCLUDES(mutex_);
  void shut_down();

  const RunnerProcessOptions options_;
  const Clock& clock_;
  const int wake_;

  // The supervising thread's own.
  std::unique_ptr<RunnerLink> link_;
  bool greeted_ = false;
  MonotonicTime last_sign_{};  // of life, while loading or answering
  int failures_ = 0;           // in a row
  std::size_t in_flight_ = 0;  // sent and without terminal chunk

  mutable Mutex mutex_;
  std::map<TaskId, Entry> tasks_ EXO_GUARDED_BY(mutex_);
  std::deque<TaskId> waiting_ EXO_GUARDED_BY(mutex_);  // not sent yet, in order
  std::vector<TaskId> cancels_ EXO_GUARDED_BY(mutex_);
  Wanted wanted_ EXO_GUARDED_BY(mutex_) = Wanted::kNow;
  MonotonicTime retry_at_ EXO_GUARDED_BY(mutex_){};
  Error trouble_ EXO_GUARDED_BY(mutex_);  // why the last load or process failed
  bool ready_ EXO_GUARDED_BY(mutex_) = false;
  bool stopping_ EXO_GUARDED_BY(mutex_) = false;
  protocol::LoadedModel loaded_ EXO_GUARDED_BY(mutex_);
};

}  // namespace exo::worker
