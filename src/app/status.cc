// exo status: whether a node of this home runs, and where.
#include <fmt/format.h>
#include <memory>

#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/command_line.h"
#include "app/pid_lock.h"
#include "core/json.h"

namespace exo::app {
namespace {

struct StatusOptions {
  bool address = false, as_json = false;
};

int show_status(const Invocation& invocation, const StatusOptions& options) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  const auto node = find_node(context->paths);
  if (options.as_json) {
    Json json{{"running", node.has_value()}};
    if (node) json.update(Json{{"pid", node->pid}, {"address", node->url()}});
    fmt::print("{}\n", dump_json(json));
  } else if (!node) {
    fmt::print(stderr, "no node is running here; 'exo serve' starts one\n");
  } else if (options.address) {
    fmt::print("{}\n", node->url());
  } else {
    fmt::print("a node is running at {} as process {}\n", node->url(), node->pid);
  }
  return node ? 0 : kFailure;
}

}  // namespace

void add_status(CommandTree& tree) {
  auto options = std::make_shared<StatusOptions>();
  Invocation& invocation = tree.invocation();
  tree.add("status", "Tell whether a node is running, and where")
      .flag("--address", options->address, "print the address alone")
      .flag("--json", options->as_json, "as JSON")
      .settings({})
      .footer(
          "The exit status is 0 if one is running, else 1.\n\nExamples:\n"
          "  curl $(exo status --address)/v1/models")
      .runs([&invocation, options] { return show_status(invocation, *options); });
}

}  // namespace exo::app
