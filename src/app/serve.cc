// exo serve: a node until Ctrl-C.
#include <fmt/format.h>
#include <semaphore>
#include <string>
#include <unistd.h>

#include "app/command.h"
#include "app/command_line.h"
#include "app/node.h"
#include "app/process.h"
#include "core/log.h"
#include "models/store.h"

namespace exo::app {
namespace {

// What a person wants to know of a node that has just started.
std::string welcome(const NodeRecord& node, const std::vector<models::StoredModel>& models) {
  const std::string example = models.empty() ? "MODEL" : models.front().id.value;
  std::string text = fmt::format("exo is running at {} (process {})\n", node.url(), node.pid);
  if (models.empty()) {
    text += "  no models yet       exo import FILE brings one in\n";
  } else {
    text += fmt::format("  models              {}", models.front().id.value);
    for (std::size_t i = 1; i < models.size(); ++i) text += ", " + models[i].id.value;
    text += "\n";
  }
  text += fmt::format("  chat                exo run {}\n", example);
  text += fmt::format("  OpenAI clients      base_url = {}/v1, model = {}\n", node.url(), example);
  return text + "  stop                Ctrl-C\n";
}

int serve(const Invocation& invocation) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  std::binary_semaphore ending(0);
  const SignalListener signals([&](int signal_number, int count) {
    if (count > 1) ::_exit(kFailure);  // asked twice: at once
    log::info("signal {}: stopping", signal_number);
    ending.release();
  });
  const auto node = Node::start(*context);
  if (!node) return report(node.error());
  fmt::print("{}", welcome((*node)->record(), models::Store(context->paths).list()));
  std::fflush(stdout);
  ending.acquire();
  return 0;
}

}  // namespace

void add_serve(CommandTree& tree) {
  Invocation& invocation = tree.invocation();
  tree.add("serve", "Run a node that answers through the OpenAI API")
      .settings({"api-port", "listen", "api-key", "cors", "no-auto-place", "idle-ttl", "threads",
                 "cpus", "cpu-isa", "cpu-precision"})
      .footer(
          "One node runs per home (EXO_HOME). Ctrl-C ends it in order, a second Ctrl-C at once.\n"
          "Every flag is a key of config.toml, too, and has the variable in brackets.\n\n"
          "Examples:\n"
          "  exo serve\n"
          "  exo serve --listen 0.0.0.0 --api-key SECRET    other machines may use it\n"
          "  exo serve --api-port 8000 --threads 4 --idle-ttl 2h")
      .runs([&invocation] { return serve(invocation); });
}

}  // namespace exo::app
