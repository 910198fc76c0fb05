// The node that a command talks to: the one that runs on this home, else one of the command's own.
#pragma once

#include <memory>

#include "app/command.h"
#include "app/node.h"
#include "app/node_client.h"
#include "core/result.h"

namespace exo::app {

class NodeAccess {
 public:
  // Errors: as Node::start().
  static Result<NodeAccess> open(const Context& context);

  NodeClient& client() { return client_; }
  // The node lives in this process and ends with this object.
  bool is_own() const { return own_ != nullptr; }

 private:
  NodeAccess(std::unique_ptr<Node> own, NodeClient client);
  std::unique_ptr<Node> own_;
  NodeClient client_;
};

}  // namespace exo::app
