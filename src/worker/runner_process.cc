// The supervisor's handle.
#include "worker/runner_process.h"

#include <cerrno>
#include <sys/eventfd.h>
#include <utility>

#include "worker/supervisor.h"

namespace exo::worker {

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::start(RunnerProcessOptions options,
                                                            const Clock& clock) {
  if (options.command.empty())
    return fail(ErrorCode::kInvalidInput, "a runner needs a program to run");
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return fail_errno(errno, "no event descriptor could be made for a runner");
  return std::unique_ptr<RunnerProcess>(
      new RunnerProcess(std::make_shared<Supervisor>(std::move(options), clock, wake)));
}

RunnerProcess::RunnerProcess(std::shared_ptr<Supervisor> supervisor)
    : supervisor_(std::move(supervisor)),
      thread_([supervisor = supervisor_] { supervisor->run(); }) {}

RunnerProcess::~RunnerProcess() {
  // A callback may hold the last reference: its own thread cannot be waited for.
  const bool inside = thread_.get_id() == std::this_thread::get_id();
  supervisor_->stop(inside);
  if (inside) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Result<void> RunnerProcess::generate(TaskId id, protocol::TextRequest request, OnChunk on_chunk) {
  return supervisor_->generate(std::move(id), std::move(request), std::move(on_chunk));
}

void RunnerProcess::cancel(const TaskId& id) { supervisor_->cancel(id); }
std::string RunnerProcess::problem() const { return supervisor_->problem(); }
bool RunnerProcess::ready() const { return supervisor_->ready(); }
protocol::LoadedModel RunnerProcess::loaded() const { return supervisor_->loaded(); }

}  // namespace exo::worker
