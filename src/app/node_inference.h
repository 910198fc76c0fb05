// The node's answer to api::Inference: which model a name means, which runner has it, when an idle
// one leaves.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/inference.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "models/store.h"

namespace exo::app {

// A model in a process of its own. Two sides: the worker's supervisor, and a test's.
class Runner {
 public:
  virtual ~Runner() = default;  // stops the process; generations under way end with an error before
  // Queues a generation. `on_chunk` as in api::Inference. Errors: kBusy: the queue is full;
  // kUnavailable.
  virtual Result<void> generate(const TaskId& id, protocol::TextRequest request,
                                api::Inference::OnChunk on_chunk) = 0;
  // Of a generation that is queued or runs; its terminal chunk follows.
  virtual void cancel(const TaskId& id) = 0;
  virtual std::string problem() const = 0;
};

// Starts the process and its loading without waiting for either.
using StartRunner = std::function<Result<std::unique_ptr<Runner>>(const models::StoredModel&)>;

struct InferenceOptions {
  bool auto_place = true;
  std::chrono::seconds idle_ttl = std::chrono::minutes(30);  // 0: for ever
};

class NodeInference final : public api::Inference {
 public:
  // `clock` must outlive it.
  NodeInference(models::Store store, InferenceOptions options, StartRunner start_runner,
                const Clock& clock);
  ~NodeInference() override;

  std::vector<api::ModelState> models() const override;
  Result<models::StoredModel> resolve(std::string_view name) const override;
  Result<std::unique_ptr<api::Generation>> generate(CommandId id, protocol::TextRequest request,
                                                    OnChunk on_chunk) override;
  bool cancel(const CommandId& id) override;
  std::string health_problem() const override;

  // Lets the runners go that nobody has used for the time to live. The node calls it every second.
  void release_idle();
  // Ends every generation and runner; generate() says kUnavailable from then on.
  void shut_down();

 private:
  struct State;
  class NodeGeneration;
  std::shared_ptr<State> state_;  // shared with the chunks that are under way
};

}  // namespace exo::app
