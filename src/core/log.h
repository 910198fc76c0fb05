// Logging: spdlog to standard error and to rotating files. Use SPDLOG-style calls:
// log::info("loaded {} in {} s", …).
#pragma once

#include <cstddef>
#include <filesystem>
#include <spdlog/spdlog.h>

#include "core/result.h"

namespace exo::log {

using spdlog::critical;
using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

struct Options {
  int verbosity = 0;                  // -1: warnings only, 0: info, 1 and more: debug
  std::filesystem::path file = {};    // empty: no file
  std::size_t max_bytes = 100 << 20;  // rotated beyond this
  std::size_t kept_files = 5;
};

// Sets the process's logger. A file that cannot be opened is an error; standard error works all the
// same.
Result<void> set_up(const Options& options);

}  // namespace exo::log
