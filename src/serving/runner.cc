// Main of the runner process.
#include "serving/runner.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <utility>

#include "core/clock.h"
#include "core/log.h"
#include "serving/connection.h"
#include "serving/scheduler.h"
#include "serving/served_model.h"

namespace exo::serving {
namespace {

using protocol::RunnerState;

void report(Connection& connection, RunnerState state) {
  connection.send(protocol::RunnerStatus{.state = state, .error = {}});
}

int give_up(Connection& connection, Error error) {
  log::error("{}", to_string(error));
  connection.send(protocol::RunnerStatus{.state = RunnerState::kFailed, .error = std::move(error)});
  return 1;
}

// Passes loading progress on, at most ten times a second; called on any thread.
class ProgressReporter {
 public:
  explicit ProgressReporter(Connection& connection) : connection_(connection) {}

  void operator()(std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    constexpr auto kPause = std::chrono::nanoseconds(std::chrono::milliseconds(100)).count();
    auto last = last_.load();
    if (done < total && now - last < kPause) return;
    if (!last_.compare_exchange_strong(last, now)) return;
    connection_.send(protocol::LoadProgress{.done_bytes = done, .total_bytes = total});
  }

 private:
  Connection& connection_;
  std::atomic<std::int64_t> last_ = 0;
};

Result<void> greet(Connection& connection) {
  connection.send(protocol::Hello{});
  const auto task = connection.wait();
  const auto* hello = task ? std::get_if<protocol::Hello>(&*task) : nullptr;
  if (hello == nullptr) return fail(ErrorCode::kInvalidInput, "the node did not say hello first");
  if (hello->version == protocol::kTaskProtocolVersion) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("the node speaks version {} of the task protocol, this runner version {}; "
                  "restart the node",
                  hello->version, protocol::kTaskProtocolVersion));
}

Result<std::unique_ptr<ServedModel>> load(Connection& connection, const RunnerOptions& options) {
  const auto task = connection.wait();
  const auto* load_task = task ? std::get_if<protocol::LoadModel>(&*task) : nullptr;
  if (load_task == nullptr)
    return fail(ErrorCode::kInvalidInput, "the node sent something else before a model to load");
  const auto started = std::chrono::steady_clock::now();
  report(connection, RunnerState::kLoading);
  ProgressReporter progress(connection);
  EXO_TRY(auto model, ServedModel::load(load_task->path, options, std::ref(progress)));
  report(connection, RunnerState::kLoaded);
  report(connection, RunnerState::kWarmingUp);
  EXO_TRY(model->warm_up());
  connection.send(protocol::LoadedModel{
      .context_length = model->info().context_length,
      .weight_bytes = model->info().weight_bytes,
      .load_seconds = seconds_between(started, std::chrono::steady_clock::now())});
  report(connection, RunnerState::kReady);
  return model;
}

void submit(Scheduler& scheduler, protocol::Task task) {
  if (auto* generate = std::get_if<protocol::Generate>(&task))
    scheduler.submit(std::move(generate->id), std::move(generate->request));
}

void serve(Connection& connection, const GenerationContext& context) {
  const auto scheduler = make_fifo_scheduler(context, [&](const TaskId& id, protocol::Chunk chunk) {
    connection.send_chunk(id, std::move(chunk));
  });
  while (auto first = connection.wait()) {
    report(connection, RunnerState::kRunning);
    submit(*scheduler, *std::move(first));
    bool more = true;
    while (more) {
      // Cancellations first: what they name has been queued before, so it is known afterwards.
      const std::set<TaskId> cancelled = connection.take_cancelled();
      while (auto task = connection.poll()) submit(*scheduler, *std::move(task));
      for (const TaskId& id : cancelled) scheduler->cancel(id);
      more = scheduler->step();
    }
    report(connection, RunnerState::kReady);
  }
}

}  // namespace

int run_runner(int socket_fd, const RunnerOptions& options) {
  // Whatever runs, the process has nothing to save: it ends without waiting for it.
  Connection connection(socket_fd, [](int exit_code) { std::_Exit(exit_code); });
  if (Result<void> greeted = greet(connection); !greeted)
    return give_up(connection, std::move(greeted).error());
  Result<std::unique_ptr<ServedModel>> model = load(connection, options);
  if (!model) return give_up(connection, std::move(model).error());
  serve(connection, (*model)->context());
  return 0;
}

}  // namespace exo::serving
