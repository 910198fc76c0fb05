#include "core/paths.h"

#include <cstdlib>

#include "core/strings.h"

namespace exo {
namespace {

using std::filesystem::path;

std::optional<std::string> non_empty(const Environment& environment, std::string_view name) {
  auto value = environment(name);
  return value && !value->empty() ? value : std::nullopt;
}

// `text` with a leading "~" replaced by the user's home.
path expand_home(std::string_view text, const Environment& environment) {
  if (text == "~" || text.starts_with("~/")) {
    if (const auto home = non_empty(environment, "HOME")) {
      return path(*home) / path(text.substr(text.size() > 1 ? 2 : 1));
    }
  }
  return path(text);
}

std::vector<path> path_list(const Environment& environment, std::string_view name) {
  std::vector<path> paths;
  for (const std::string_view item : split(environment(name).value_or(""), ':')) {
    if (!trim(item).empty()) paths.push_back(expand_home(trim(item), environment));
  }
  return paths;
}

// EXO_HOME is a directory under the user's home, or an absolute path, that holds everything at
// once.
std::optional<path> single_home(const Environment& environment) {
  const auto value = non_empty(environment, "EXO_HOME");
  if (!value) return std::nullopt;
  const path expanded = expand_home(*value, environment);
  if (expanded.is_absolute()) return expanded;
  const auto home = non_empty(environment, "HOME");
  return home ? path(*home) / expanded : std::filesystem::absolute(expanded);
}

Result<path> xdg_directory(const Environment& environment, std::string_view variable,
                           std::string_view below_home) {
  if (const auto value = non_empty(environment, variable); value && path(*value).is_absolute()) {
    return path(*value) / "exo";
  }
  if (const auto home = non_empty(environment, "HOME")) return path(*home) / below_home / "exo";
  return fail(ErrorCode::kInvalidInput,
              "cannot tell where to keep files: set HOME, or EXO_HOME to a directory");
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

bool is_enabled(const Environment& environment, std::string_view name) {
  const std::string value = to_lower_ascii(environment(name).value_or(""));
  return value == "true" || value == "1";
}

Result<Paths> find_paths(const Environment& environment) {
  Paths paths;
  if (const auto home = single_home(environment)) {
    paths.config = paths.data = paths.cache = *home;
  } else {
    EXO_TRY(paths.config, xdg_directory(environment, "XDG_CONFIG_HOME", ".config"));
    EXO_TRY(paths.data, xdg_directory(environment, "XDG_DATA_HOME", ".local/share"));
    EXO_TRY(paths.cache, xdg_directory(environment, "XDG_CACHE_HOME", ".cache"));
  }
  auto models = non_empty(environment, "EXO_DEFAULT_MODELS_DIR");
  if (!models) models = non_empty(environment, "EXO_MODELS_DIR");  // the older name
  paths.models = models ? expand_home(*models, environment) : paths.data / "models";
  paths.more_models = path_list(environment, "EXO_MODELS_DIRS");
  for (path& older : path_list(environment, "EXO_MODELS_PATH")) {
    paths.more_models.push_back(std::move(older));
  }
  paths.read_only_models = path_list(environment, "EXO_MODELS_READ_ONLY_DIRS");
  return paths;
}

}  // namespace exo
