// Main of the runner process.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/encoding.h"
#include "kernels/multiply.h"

namespace exo::serving {

struct RunnerOptions {
  std::size_t threads = 0;     // 0: one per physical core
  std::vector<int> cpus = {};  // where the threads are bound; empty: not bound
  kernels::Precision precision = kernels::Precision::kFast;
  kernels::FloatType kv_type = kernels::FloatType::kBf16;
};

// Serves tasks from the node on `socket_fd`, which it owns, until Shutdown or the other side's end.
// Returns the process's exit code; Shutdown and a closed socket while something runs end the
// process at once.
int run_runner(int socket_fd, const RunnerOptions& options);

}  // namespace exo::serving
