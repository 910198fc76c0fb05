// A node: the store, the runners of loaded models, and the HTTP API over them; alive from start()
// to destruction.
#pragma once

#include <memory>

#include "app/command.h"
#include "app/pid_lock.h"
#include "core/result.h"

namespace exo::app {

class Node {
 public:
  // Takes the home's lock, opens the port, publishes the address. Errors: kBusy: another node has
  // the home, or another program the port; kPermission: a read-only home; kInvalidInput: an address
  // that is none; kUnsupported: an instruction set that the processor lacks.
  static Result<std::unique_ptr<Node>> start(const Context& context);
  // Ends streams with an error frame, stops the runners, removes the lock.
  ~Node();

  // Where clients on this machine reach it.
  const NodeRecord& record() const;

 private:
  struct State;
  explicit Node(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace exo::app
