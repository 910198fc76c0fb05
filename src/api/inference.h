// What the HTTP layer needs from below it: models and generations. app/ wires a node's own
// implementation; the cluster work puts commands and state behind this same interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/id.h"
#include "core/result.h"
#include "models/store.h"
#include "protocol/chunk.h"
#include "protocol/request.h"

namespace exo::api {

// A generation under way. Destroying it cancels it; no callback is made once the destructor has
// returned.
class Generation {
 public:
  virtual ~Generation() = default;
  // Ends it early, cleanly: a FinishChunk with `cancelled` follows.
  virtual void cancel() = 0;
};

struct ModelState {
  models::StoredModel model;
  bool running = false;  // a runner holds it
};

// Thread-safe.
class Inference {
 public:
  virtual ~Inference() = default;

  virtual std::vector<ModelState> models() const = 0;
  // api.md 1.13. Errors: kNotFound.
  virtual Result<models::StoredModel> resolve(std::string_view name) const = 0;

  // Called with each chunk in order, on a thread of the implementation; must not block. Exactly one
  // terminal chunk, the last.
  using OnChunk = std::function<void(protocol::Chunk chunk)>;
  // Starts a generation; loads the model if it is not loaded. Errors: kNotFound: no such model;
  // kBusy: the queue is full; kUnavailable: shutting down.
  virtual Result<std::unique_ptr<Generation>> generate(CommandId id, protocol::TextRequest request,
                                                       OnChunk on_chunk) = 0;

  // Cancels by id, as Generation::cancel. False: unknown or over.
  virtual bool cancel(const CommandId& id) = 0;

  // Empty while all is well, else what is wrong (a runner that cannot be kept alive, …).
  virtual std::string health_problem() const = 0;
};

}  // namespace exo::api
