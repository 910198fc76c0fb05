// The front door of app: the program's command line, one file per subcommand, and the node that
// they start.
//
//   main.cc          enters at run_command_line()       command.h        what subcommands share
//   settings.h       flags, environment, config.toml    node.h           a node: store, runners,
//   HTTP API node_access.h    a running node, or one of our own  node_client.h    HTTP client of
//   the node's API serve run import list rm status bench doctor completion runner: one subcommand
//   each
#pragma once

#include <string>
#include <vector>

namespace exo::app {

// Exit statuses: 0 success, 1 a failure told in one sentence on standard error, 2 a wrong command
// line, 130 stopped by Ctrl-C.
inline constexpr int kFailure = 1, kWrongUsage = 2, kInterrupted = 130;

// The whole program: parses, runs the subcommand, returns the exit status. `arguments` without the
// program's name.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace exo::app
