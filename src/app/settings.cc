#include "app/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <fmt/format.h>
#include <optional>
#include <string>

#include <toml++/toml.h>

#include "core/file.h"
#include "core/strings.h"
#include "kernels/isa.h"

namespace exo::app {
namespace {

using Texts = std::vector<std::string>;

template <std::integral T>
std::optional<T> integer_from(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<bool> switch_from(std::string_view text) {
  const std::string value = to_lower_ascii(trim(text));
  if (value == "true" || value == "1" || value == "on" || value == "yes") return true;
  if (value.empty() || value == "false" || value == "0" || value == "off" || value == "no") {
    return false;
  }
  return fail(ErrorCode::kInvalidInput, fmt::format("'{}' is neither true nor false", text));
}

Result<void> apply_port(Settings& settings, const Texts& texts) {
  const auto port = integer_from<std::uint16_t>(texts.back());
  if (!port) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no port: a number from 0 to 65535 is wanted", texts.back()));
  }
  settings.api_port = *port;
  return {};
}

Result<void> apply_threads(Settings& settings, const Texts& texts) {
  const auto threads = integer_from<std::size_t>(texts.back());
  if (!threads || *threads == 0 || *threads > 1024) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no number of threads: 1 to 1024 is wanted", texts.back()));
  }
  settings.threads = *threads;
  return {};
}

Result<void> apply_isa(Settings& settings, const Texts& texts) {
  EXO_TRY(kernels::isa_from(texts.back()));
  settings.isa = texts.back();
  return {};
}

Result<void> apply_precision(Settings& settings, const Texts& texts) {
  if (texts.back() != "fast" && texts.back() != "exact") {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no precision: fast or exact is wanted", texts.back()));
  }
  settings.precision = texts.back();
  return {};
}

constexpr auto kSpecs = std::to_array<SettingSpec>({
    {"api-port", "EXO_API_PORT", SettingSpec::Form::kValue, "PORT",
     "port of the HTTP API; 0 takes any free one (default 52415)", apply_port},
    {"listen", "EXO_LISTEN", SettingSpec::Form::kList, "ADDRESS",
     "address to listen on (0.0.0.0, ::, …); may be repeated (default: this machine only)",
     [](Settings& settings, const Texts& texts) -> Result<void> {
       settings.listen = texts;
       return {};
     }},
    {"api-key", "EXO_API_KEY", SettingSpec::Form::kList, "KEY",
     "key that clients must show; with one the API listens on all interfaces; may be repeated",
     [](Settings& settings, const Texts& texts) -> Result<void> {
       settings.api_keys = texts;
       return {};
     }},
    {"cors", "EXO_CORS", SettingSpec::Form::kList, "ORIGIN",
     "web origin that may call the API (as https://chat.example); may be repeated",
     [](Settings& settings, const Texts& texts) -> Result<void> {
       settings.cors_origins = texts;
       return {};
     }},
    {"no-auto-place", "EXO_NO_AUTO_PLACE", SettingSpec::Form::kSwitch, "",
     "a request does not load a model that is not loaded: it gets 404",
     [](Settings& settings, const Texts& texts) -> Result<void> {
       EXO_TRY(const bool off, switch_from(texts.back()));
       settings.auto_place = !off;
       return {};
     }},
    {"idle-ttl", "EXO_IDLE_TTL", SettingSpec::Form::kValue, "DURATION",
     "how long a model stays loaded after its last request, as 90s, 30m, 2h; 0 is for ever "
     "(default 30m)",
     [](Settings& settings, const Texts& texts) -> Result<void> {
       EXO_TRY(settings.idle_ttl, parse_duration(texts.back()));
       return {};
     }},
    {"threads", "EXO_CPU_THREADS", SettingSpec::Form::kValue, "N",
     "threads that compute (default: the physical cores that this process may use)", apply_threads},
    {"cpus", "EXO_CPUS", SettingSpec::Form::kValue, "LIST",
     "processors to bind these threads to, as 0,2,4-7 (default: not bound)",
     [](Settings& settings, const Texts& texts) -> Result<void> {
       std::string joined;  // a list in config.toml comes as several texts
       for (const std::string& text : texts) joined += (joined.empty() ? "" : ",") + text;
       EXO_TRY(settings.cpus, parse_cpu_list(joined));
       return {};
     }},
    {"cpu-isa", "EXO_CPU_ISA", SettingSpec::Form::kValue, "ISA",
     "instruction set: scalar, avx2, avx512 or avx512bf16 (default: the widest available)",
     apply_isa},
    {"cpu-precision", "EXO_CPU_PRECISION", SettingSpec::Form::kValue, "NAME",
     "precision of activations: fast (8-bit integers, the default) or exact (32-bit floats)",
     apply_precision},
});

struct Source {
  std::string name;
  Texts texts;
};

Source find_source(const SettingSpec& spec, const Given& flags, const Environment& environment,
                   const Given& file) {
  if (const auto flag = flags.find(spec.key); flag != flags.end() && !flag->second.empty()) {
    return {fmt::format("--{}", spec.key), flag->second};
  }
  if (const auto value = environment(spec.environment); value && !trim(*value).empty()) {
    Source source{.name = std::string(spec.environment), .texts = {}};
    if (spec.form != SettingSpec::Form::kList) {
      source.texts.emplace_back(trim(*value));
      return source;
    }
    for (const std::string_view item : split(*value, ',')) {
      if (!trim(item).empty()) source.texts.emplace_back(trim(item));
    }
    return source;
  }
  if (const auto entry = file.find(spec.key); entry != file.end()) {
    return {fmt::format("{} in config.toml", spec.key), entry->second};
  }
  return {};
}

Result<std::string> text_of(const toml::node& node, std::string_view key) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return std::string(*flag ? "true" : "false");
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  return fail(ErrorCode::kInvalidInput,
              "config.toml: a text, a whole number, true or false, or a list of them is wanted",
              std::string(key));
}

Result<Texts> texts_of(const toml::node& node, std::string_view key) {
  Texts texts;
  if (const toml::array* items = node.as_array()) {
    for (const toml::node& item : *items) {
      EXO_TRY(texts.emplace_back(), text_of(item, key));
    }
    return texts;
  }
  EXO_TRY(texts.emplace_back(), text_of(node, key));
  return texts;
}

}  // namespace

std::span<const SettingSpec> setting_specs() { return kSpecs; }

Result<Settings> resolve_settings(const Given& flags, const Environment& environment,
                                  const Given& file) {
  Settings settings;
  for (const SettingSpec& spec : kSpecs) {
    const Source source = find_source(spec, flags, environment, file);
    if (source.texts.empty()) continue;
    if (auto applied = spec.apply(settings, source.texts); !applied) {
      return fail(applied.error().code, applied.error().message, source.name);
    }
  }
  return settings;
}

Result<Given> parse_config(std::string_view toml_text) {
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("config.toml is not valid TOML in line {}: {}",
                            error.source().begin.line, error.description()));
  }
  Given given;
  for (const auto& [key, node] : table) {
    const auto same_key = [&](const SettingSpec& spec) { return spec.key == key.str(); };
    if (std::ranges::none_of(kSpecs, same_key)) {
      return fail(ErrorCode::kInvalidInput, "config.toml has a key that exo does not know",
                  std::string(key.str()));
    }
    EXO_TRY(given[std::string(key.str())], texts_of(node, key.str()));
  }
  return given;
}

Result<Given> read_config_file(const std::filesystem::path& path) {
  constexpr std::size_t kMaxBytes = 1 << 20;
  const auto text = read_file(path, kMaxBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return Given{};
  if (!text) return std::unexpected(text.error());
  return parse_config(*text);
}

std::vector<std::pair<std::string, std::string>> runner_environment(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (settings.threads != 0) {
    variables.emplace_back("EXO_CPU_THREADS", std::to_string(settings.threads));
  }
  if (!settings.cpus.empty()) {
    variables.emplace_back("EXO_CPUS", fmt::format("{}", fmt::join(settings.cpus, ",")));
  }
  if (!settings.isa.empty()) variables.emplace_back("EXO_CPU_ISA", settings.isa);
  variables.emplace_back("EXO_CPU_PRECISION", settings.precision);
  return variables;
}

Result<std::chrono::seconds> parse_duration(std::string_view text) {
  const std::string_view trimmed = trim(text);
  const std::size_t digits = std::min(trimmed.find_first_not_of("0123456789"), trimmed.size());
  const auto count = integer_from<std::int64_t>(trimmed.substr(0, digits));
  const std::string_view unit = trim(trimmed.substr(digits));
  std::int64_t factor = 0;
  if (unit.empty() || unit == "s") factor = 1;
  if (unit == "m" || unit == "min") factor = 60;
  if (unit == "h") factor = 3600;
  if (unit == "d") factor = 86400;
  constexpr std::int64_t kLongest = std::int64_t{100} * 365 * 86400;
  if (!count || factor == 0 || *count > kLongest / factor) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no duration: write 90s, 30m, 2h or 1d", text));
  }
  return std::chrono::seconds(*count * factor);
}

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  constexpr int kMaxCpu = 4095;
  std::vector<int> cpus;
  for (const std::string_view item : split(text, ',')) {
    const std::string_view range = trim(item);
    const std::size_t dash = range.find('-');
    const auto first = integer_from<int>(range.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : integer_from<int>(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last > kMaxCpu || *first > *last) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("'{}' is no list of processors: write 0,2,4-7", text));
    }
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace exo::app
