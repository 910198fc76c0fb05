#include "app/node_inference.h"

#include <fmt/format.h>
#include <optional>
#include <thread>
#include <utility>

#include "core/log.h"

namespace exo::app {
namespace {

using OnChunk = api::Inference::OnChunk;

// Hands chunks over until it is closed; close() waits for a call that is under way on another
// thread.
class Delivery {
 public:
  explicit Delivery(OnChunk on_chunk) : on_chunk_(std::move(on_chunk)) {}

  void deliver(protocol::Chunk chunk) EXO_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (closed_) return;
      caller_ = std::this_thread::get_id();
    }
    on_chunk_(std::move(chunk));
    {
      MutexLock lock(mutex_);
      caller_ = {};
    }
    idle_.notify_all();
  }

  void close() EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    // The callback itself may be what ends the generation: it must not wait for itself.
    while (caller_ != std::thread::id() && caller_ != std::this_thread::get_id())
      idle_.wait(mutex_);
  }

 private:
  const OnChunk on_chunk_;
  Mutex mutex_;
  ConditionVariable idle_;
  bool closed_ EXO_GUARDED_BY(mutex_) = false;
  std::thread::id caller_ EXO_GUARDED_BY(mutex_);
};

}  // namespace

struct NodeInference::State {
  struct Placed {
    std::shared_ptr<Runner> runner;
    std::size_t active = 0;  // generations without their terminal chunk
    MonotonicTime last_used;
  };

  State(models::Store model_store, InferenceOptions given, StartRunner start, const Clock& time)
      : store(std::move(model_store)),
        options(given),
        start_runner(std::move(start)),
        clock(time) {}

  Result<std::shared_ptr<Runner>> runner_for(const models::StoredModel& model) EXO_REQUIRES(mutex);
  Result<std::shared_ptr<Runner>> admit(const CommandId& id, const models::StoredModel& model)
      EXO_EXCLUDES(mutex);
  void finish(const CommandId& id, const ModelId& model) EXO_EXCLUDES(mutex);

  const models::Store store;
  const InferenceOptions options;
  const StartRunner start_runner;
  const Clock& clock;
  mutable Mutex mutex;
  std::map<ModelId, Placed> placed EXO_GUARDED_BY(mutex);
  std::map<CommandId, std::shared_ptr<Runner>> running EXO_GUARDED_BY(mutex);
  bool shutting_down EXO_GUARDED_BY(mutex) = false;
};

// The mutex is held while a process is started, so that many first requests cause one start.
Result<std::shared_ptr<Runner>> NodeInference::State::runner_for(const models::StoredModel& model) {
  if (const auto found = placed.find(model.id); found != placed.end()) return found->second.runner;
  if (!options.auto_place) {
    return fail(ErrorCode::kNotFound,
                fmt::format("the model {} is not loaded, and this node loads none on request",
                            model.id.value));
  }
  log::info("loading {}", model.id.value);
  EXO_TRY(std::shared_ptr<Runner> runner, start_runner(model));
  placed.emplace(model.id, Placed{.runner = runner, .active = 0, .last_used = clock.now()});
  return runner;
}

Result<std::shared_ptr<Runner>> NodeInference::State::admit(const CommandId& id,
                                                            const models::StoredModel& model) {
  MutexLock lock(mutex);
  if (shutting_down) return fail(ErrorCode::kUnavailable, "this node is shutting down");
  EXO_TRY(std::shared_ptr<Runner> runner, runner_for(model));
  ++placed.at(model.id).active;
  running.emplace(id, runner);
  return runner;
}

void NodeInference::State::finish(const CommandId& id, const ModelId& model) {
  std::shared_ptr<Runner> last;  // may be the last owner: released after the lock
  MutexLock lock(mutex);
  const auto found = running.find(id);
  if (found == running.end()) return;
  last = std::move(found->second);
  running.erase(found);
  const auto entry = placed.find(model);
  if (entry == placed.end() || entry->second.runner != last) return;
  --entry->second.active;
  entry->second.last_used = clock.now();
}

class NodeInference::NodeGeneration final : public api::Generation {
 public:
  NodeGeneration(std::shared_ptr<State> state, CommandId id, std::shared_ptr<Delivery> delivery)
      : state_(std::move(state)), id_(std::move(id)), delivery_(std::move(delivery)) {}
  ~NodeGeneration() override {
    delivery_->close();
    cancel();
  }
  void cancel() override {
    std::shared_ptr<Runner> runner;
    {
      MutexLock lock(state_->mutex);
      const auto found = state_->running.find(id_);
      if (found == state_->running.end()) return;
      runner = found->second;
    }
    runner->cancel(TaskId{id_.value});
  }

 private:
  std::shared_ptr<State> state_;
  CommandId id_;
  std::shared_ptr<Delivery> delivery_;
};

NodeInference::NodeInference(models::Store store, InferenceOptions options,
                             StartRunner start_runner, const Clock& clock)
    : state_(std::make_shared<State>(std::move(store), options, std::move(start_runner), clock)) {}

NodeInference::~NodeInference() { shut_down(); }

std::vector<api::ModelState> NodeInference::models() const {
  std::vector<api::ModelState> states;
  for (models::StoredModel& model : state_->store.list()) {
    MutexLock lock(state_->mutex);
    const bool running = state_->placed.contains(model.id);
    states.push_back({.model = std::move(model), .running = running});
  }
  return states;
}

Result<models::StoredModel> NodeInference::resolve(std::string_view name) const {
  return state_->store.find(name);
}

Result<std::unique_ptr<api::Generation>> NodeInference::generate(CommandId id,
                                                                 protocol::TextRequest request,
                                                                 OnChunk on_chunk) {
  EXO_TRY(const models::StoredModel model, state_->store.find(request.model.value));
  EXO_TRY(const std::shared_ptr<Runner> runner, state_->admit(id, model));
  auto delivery = std::make_shared<Delivery>(std::move(on_chunk));
  const auto forward = [state = state_, id, model = model.id, delivery](protocol::Chunk chunk) {
    if (protocol::is_terminal(chunk)) state->finish(id, model);
    delivery->deliver(std::move(chunk));
  };
  if (auto queued = runner->generate(TaskId{id.value}, std::move(request), forward); !queued) {
    state_->finish(id, model.id);
    return std::unexpected(queued.error());
  }
  return std::make_unique<NodeGeneration>(state_, std::move(id), std::move(delivery));
}

bool NodeInference::cancel(const CommandId& id) {
  std::shared_ptr<Runner> runner;
  {
    MutexLock lock(state_->mutex);
    const auto found = state_->running.find(id);
    if (found == state_->running.end()) return false;
    runner = found->second;
  }
  runner->cancel(TaskId{id.value});
  return true;
}

std::string NodeInference::health_problem() const {
  MutexLock lock(state_->mutex);
  std::string problems;
  for (const auto& [id, placed] : state_->placed) {
    const std::string problem = placed.runner->problem();
    if (!problem.empty())
      problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", id.value, problem);
  }
  return problems;
}

void NodeInference::release_idle() {
  if (state_->options.idle_ttl == std::chrono::seconds(0)) return;
  std::vector<std::shared_ptr<Runner>> leaving;  // stopped after the lock
  MutexLock lock(state_->mutex);
  const MonotonicTime now = state_->clock.now();
  for (auto entry = state_->placed.begin(); entry != state_->placed.end();) {
    State::Placed& placed = entry->second;
    if (placed.active > 0 || now - placed.last_used < state_->options.idle_ttl) {
      ++entry;
      continue;
    }
    log::info("{} was idle and leaves", entry->first.value);
    leaving.push_back(std::move(placed.runner));
    entry = state_->placed.erase(entry);
  }
}

void NodeInference::shut_down() {
  // Both own runners; the last owner stops the process, whose last chunks need the lock.
  std::map<ModelId, State::Placed> placed;
  std::map<CommandId, std::shared_ptr<Runner>> running;
  {
    MutexLock lock(state_->mutex);
    state_->shutting_down = true;
    placed.swap(state_->placed);
    running.swap(state_->running);
  }
}

}  // namespace exo::app
