// Where exo keeps things, from EXO_HOME, the XDG variables and the EXO_* variables of
// docs/configuration.md.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace exo {

// A look-up of environment variables; an argument, so that tests need not change their own
// environment.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment process_environment();

// True for "true" in any case, and for "1".
bool is_enabled(const Environment& environment, std::string_view name);

struct Paths {
  std::filesystem::path config;  // config.toml, node_id, cluster_secret
  std::filesystem::path data;    // models/, custom_model_cards/, state.sqlite
  std::filesystem::path cache;   // exo.pid, exo_log/
  std::filesystem::path models;  // the default model directory, always the first writable one
  std::vector<std::filesystem::path> more_models;       // EXO_MODELS_DIRS: searched next, writable
  std::vector<std::filesystem::path> read_only_models;  // EXO_MODELS_READ_ONLY_DIRS: searched last

  std::filesystem::path pid_file() const { return cache / "exo.pid"; }
  std::filesystem::path logs() const { return cache / "exo_log"; }
};

// Errors: kInvalidInput when neither HOME nor EXO_HOME nor the XDG variables say where.
Result<Paths> find_paths(const Environment& environment);

}  // namespace exo
