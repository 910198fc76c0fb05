#include "app/node_access.h"

#include <utility>

#include "app/pid_lock.h"

namespace exo::app {
namespace {

NodeClient client_of(const NodeRecord& record, const Context& context) {
  const auto& keys = context.settings.api_keys;
  return {record.host, record.port, keys.empty() ? std::string() : keys.front()};
}

}  // namespace

NodeAccess::NodeAccess(std::unique_ptr<Node> own, NodeClient client)
    : own_(std::move(own)), client_(std::move(client)) {}

Result<NodeAccess> NodeAccess::open(const Context& context) {
  if (const auto running = find_node(context.paths)) {
    return NodeAccess(nullptr, client_of(*running, context));
  }
  Context own = context;
  own.settings.api_port = 0;  // nobody else is meant to come
  own.settings.listen = {"127.0.0.1"};
  EXO_TRY(std::unique_ptr<Node> node, Node::start(own));
  NodeClient client = client_of(node->record(), context);
  return NodeAccess(std::move(node), std::move(client));
}

}  // namespace exo::app
