// exo runner: the process that holds a model; started by a node, never by a person.
#include "serving/runner.h"

#include <csignal>
#include <memory>
#include <string>

#include "app/command.h"
#include "app/command_line.h"
#include "app/model_access.h"
#include "app/process.h"

namespace exo::app {
namespace {

constexpr std::uint64_t kOpenFiles = 2048;

int runner(const Invocation& invocation, std::size_t socket_fd) {
  // Ctrl-C in a terminal reaches the whole process group; the node decides when a runner ends.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  const Settings& settings = context->settings;
  raise_open_file_limit(kOpenFiles);
  if (const auto chosen = choose_isa(settings); !chosen) return report(chosen.error());
  return serving::run_runner(
      static_cast<int>(socket_fd),
      {.threads = settings.threads, .cpus = settings.cpus, .precision = precision_of(settings)});
}

}  // namespace

void add_runner(CommandTree& tree) {
  Invocation& invocation = tree.invocation();
  auto socket_fd = std::make_shared<std::size_t>(0);
  tree.add("runner", "Hold a model for a node (started by exo itself)")
      .hidden()
      .count("--socket-fd", *socket_fd, {3, 1 << 20}, "the node's end of the line")
      .settings({"threads", "cpus", "cpu-isa", "cpu-precision"})
      .runs([&invocation, socket_fd] { return runner(invocation, *socket_fd); });
}

}  // namespace exo::app
