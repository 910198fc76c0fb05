#include "app/node.h"

#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "api/server.h"
#include "app/node_inference.h"
#include "app/process.h"
#include "core/clock.h"
#include "core/log.h"
#include "kernels/isa.h"
#include "models/store.h"
#include "worker/runner_process.h"

namespace exo::app {
namespace {

constexpr std::uint64_t kOpenFiles = 65535;

// The worker's supervisor as NodeInference sees a runner.
class ProcessRunner final : public Runner {
 public:
  explicit ProcessRunner(std::unique_ptr<worker::RunnerProcess> process)
      : process_(std::move(process)) {}

  Result<void> generate(const TaskId& id, protocol::TextRequest request,
                        api::Inference::OnChunk on_chunk) override {
    return process_->generate(id, std::move(request), std::move(on_chunk));
  }
  void cancel(const TaskId& id) override { process_->cancel(id); }
  std::string problem() const override { return process_->problem(); }

 private:
  std::unique_ptr<worker::RunnerProcess> process_;
};

// `exo runner` with this node's settings.
std::vector<std::string> runner_command(const Settings& settings) {
  std::vector<std::string> command = {program_path(), "runner", "--cpu-precision",
                                      settings.precision};
  if (settings.threads != 0)
    command.insert(command.end(), {"--threads", std::to_string(settings.threads)});
  if (!settings.cpus.empty())
    command.insert(command.end(), {"--cpus", fmt::format("{}", fmt::join(settings.cpus, ","))});
  if (!settings.isa.empty()) command.insert(command.end(), {"--cpu-isa", settings.isa});
  if (settings.verbosity != 0) command.emplace_back(settings.verbosity < 0 ? "--quiet" : "-v");
  return command;
}

StartRunner runner_starter(const Settings& settings, const Clock& clock) {
  return [command = runner_command(settings),
          &clock](const models::StoredModel& model) -> Result<std::unique_ptr<Runner>> {
    EXO_TRY(auto process,
            worker::RunnerProcess::start(
                {.command = command, .model_path = model.path, .model = model.id}, clock));
    return std::make_unique<ProcessRunner>(std::move(process));
  };
}

Result<void> check_isa(const Settings& settings) {
  if (settings.isa.empty()) return {};
  EXO_TRY(const kernels::Isa isa, kernels::isa_from(settings.isa));
  return kernels::set_isa(isa);
}

// Where clients on this machine reach a node that listens on `addresses`.
std::string local_host(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    if (address == "127.0.0.1" || address == "0.0.0.0") return "127.0.0.1";
  }
  if (addresses.empty() || addresses[0] == "::" || addresses[0] == "::1") return "::1";
  return addresses[0];
}

}  // namespace

struct Node::State {
  explicit State(PidLock taken) : lock(std::move(taken)) {}

  PidLock lock;
  SteadyClock clock;
  std::unique_ptr<NodeInference> inference;
  std::unique_ptr<api::Server> server;
  NodeRecord record;
  std::jthread housekeeping;
};

Node::Node(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Node>> Node::start(const Context& context) {
  const Settings& settings = context.settings;
  EXO_TRY(check_isa(settings));
  EXO_TRY(PidLock lock, PidLock::take(context.paths));
  raise_open_file_limit(kOpenFiles);
  if (const auto logs =
          log::set_up({.verbosity = settings.verbosity, .file = context.paths.logs() / "exo.log"});
      !logs) {
    log::warn("no log file: {}", to_string(logs.error()));
  }
  auto state = std::make_unique<State>(std::move(lock));
  state->inference = std::make_unique<NodeInference>(
      models::Store(context.paths),
      InferenceOptions{.auto_place = settings.auto_place, .idle_ttl = settings.idle_ttl},
      runner_starter(settings, state->clock), state->clock);
  EXO_TRY(state->server, api::Server::start(*state->inference, {.listen = settings.listen,
                                                                .port = settings.api_port,
                                                                .cors = settings.cors_origins,
                                                                .api_keys = settings.api_keys}));
  state->record = {.pid = ::getpid(),
                   .host = local_host(state->server->addresses()),
                   .port = state->server->port()};
  EXO_TRY(state->lock.publish(state->record.host, state->record.port));
  state->housekeeping =
      std::jthread([inference = state->inference.get()](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock_held(mutex);
        while (!wake.wait_for(lock_held, stop, std::chrono::seconds(1),
                              [&] { return stop.stop_requested(); })) {
          inference->release_idle();
        }
      });
  return std::unique_ptr<Node>(new Node(std::move(state)));
}

Node::~Node() {
  state_->housekeeping = {};
  state_->inference->shut_down();
  state_->server->close();
}

const NodeRecord& Node::record() const { return state_->record; }

}  // namespace exo::app
