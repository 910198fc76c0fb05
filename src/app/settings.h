// Every setting of exo, each from the command line, else the environment, else config.toml, else a
// default.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/paths.h"
#include "core/result.h"

namespace exo::app {

struct Settings {
  std::uint16_t api_port = 52415;   // 0: any free one
  std::vector<std::string> listen;  // empty: loopback; with an API key all interfaces
  std::vector<std::string> cors_origins;
  std::vector<std::string> api_keys;
  bool auto_place = true;                                    // a request loads a model of the store
  std::chrono::seconds idle_ttl = std::chrono::minutes(30);  // 0: an idle model stays for ever
  std::size_t threads = 0;         // kernel threads; 0: the physical cores
  std::vector<int> cpus;           // to bind them to; empty: not bound
  std::string isa;                 // empty: the widest that the processor has
  std::string precision = "fast";  // or "exact"
  int verbosity = 0;               // -1: warnings only, 0: info, 1 and more: debug

  friend bool operator==(const Settings&, const Settings&) = default;
};

// Texts by key, as one source gave them. A switch that is on is "true"; an absent key was not
// given.
using Given = std::map<std::string, std::vector<std::string>, std::less<>>;

struct SettingSpec {
  enum class Form : std::uint8_t { kValue, kList, kSwitch };
  std::string_view key;          // the flag without its dashes, and the key of config.toml
  std::string_view environment;  // the variable; the items of a list are separated by commas
  Form form;
  std::string_view value_name;  // for the help text
  std::string_view help;
  Result<void> (*apply)(Settings& settings, const std::vector<std::string>& texts);
};
std::span<const SettingSpec> setting_specs();

// Flag before environment before file. Errors: kInvalidInput; `subject` says which source was
// wrong.
Result<Settings> resolve_settings(const Given& flags, const Environment& environment,
                                  const Given& file);

// What config.toml says; nothing if there is none. Errors: kInvalidInput: no TOML, an unknown key,
// a table where a value belongs; kPermission.
Result<Given> read_config_file(const std::filesystem::path& path);
Result<Given> parse_config(std::string_view toml);

// The settings that a runner needs, as variables of its environment.
std::vector<std::pair<std::string, std::string>> runner_environment(const Settings& settings);

// "90", "90s", "30m", "2h", "1d". Errors: kInvalidInput.
Result<std::chrono::seconds> parse_duration(std::string_view text);

// "0,2,4-7" → 0 2 4 5 6 7. Errors: kInvalidInput.
Result<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace exo::app
