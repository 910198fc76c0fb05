// What exo doctor looks at: the facts behind the findings.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <optional>
#include <spdlog/version.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

#include "app/doctor.h"
#include "app/pid_lock.h"
#include "core/file.h"
#include "core/strings.h"
#include "kernels/bandwidth.h"
#include "kernels/isa.h"
#include "kernels/thread_pool.h"
#include "models/store.h"

namespace exo::app {
namespace {

using Verdict = Finding::Verdict;

// The text after `key` and its colon in a file like /proc/cpuinfo; empty if it is not there.
std::string field_of(const std::string& text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trim(line.substr(0, colon)) == key) {
      return std::string(trim(line.substr(colon + 1)));
    }
  }
  return {};
}

// "24672100 kB" → bytes.
std::uint64_t bytes_of(const std::string& kilobytes) {
  std::uint64_t number = 0;
  std::from_chars(kilobytes.data(), kilobytes.data() + kilobytes.size(), number);
  return number << 10;
}

Finding look_at_processor(const Settings& settings) {
  const std::string name = field_of(read_file("/proc/cpuinfo", 1 << 24).value_or(""), "model name");
  const std::size_t threads =
      settings.threads != 0 ? settings.threads : kernels::default_thread_count();
  Finding finding{.topic = "processor",
                  .detail = fmt::format("{}, {} logical processors, exo computes with {} threads",
                                        name.empty() ? "unknown" : name,
                                        std::thread::hardware_concurrency(), threads)};
  if (threads > std::thread::hardware_concurrency()) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "more threads than processors make generation slow; lower EXO_CPU_THREADS";
  }
  return finding;
}

Finding look_at_isa(const Settings& settings) {
  std::vector<std::string> available;
  for (const kernels::Isa isa : kernels::available_isas()) available.emplace_back(name(isa));
  return judge_isa(available, settings.isa.empty() ? available.back() : settings.isa);
}

Finding look_at_memory() {
  const std::string info = read_file("/proc/meminfo", 1 << 20).value_or("");
  return judge_memory(bytes_of(field_of(info, "MemTotal")),
                      bytes_of(field_of(info, "MemAvailable")));
}

Finding look_at_bandwidth(const Settings& settings) {
  kernels::ThreadPool pool({.threads = settings.threads, .cpus = settings.cpus});
  const auto bandwidth = kernels::measure_read_bandwidth(pool, std::size_t{256} << 20, 3);
  if (!bandwidth) {
    return {Verdict::kWarning, "bandwidth", "could not be measured", to_string(bandwidth.error())};
  }
  return {.topic = "bandwidth",
          .detail = fmt::format("memory is read at {}/s, which bounds tokens per second",
                                human_bytes(static_cast<std::uint64_t>(*bandwidth))),
          .advice = {}};
}

Finding look_at_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return judge_open_files(limit.rlim_cur, limit.rlim_max);
}

// What keeps this machine's programs from listening on `port` of the loopback address.
boost::system::error_code port_error(std::uint16_t port) {
  namespace asio = boost::asio;
  try {
    asio::io_context io;
    const asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), port},
                                           /*reuse_addr=*/true);
  } catch (const boost::system::system_error& error) {
    return error.code();
  }
  return {};
}

Finding look_at_port(const Context& context) {
  const std::uint16_t port = context.settings.api_port;
  if (const auto node = find_node(context.paths)) {
    return {.topic = "node",
            .detail = fmt::format("runs at {} as process {}", node->url(), node->pid),
            .advice = {}};
  }
  const auto error = port_error(port);
  if (error) {
    return {Verdict::kBad, "node", fmt::format("none runs, and port {}: {}", port, error.message()),
            "end the program that has the port, or choose another with --api-port"};
  }
  return {.topic = "node", .detail = fmt::format("none runs; port {} is free", port), .advice = {}};
}

// The nearest directory upwards that exists.
std::filesystem::path existing_part(std::filesystem::path path) {
  std::error_code ignored;
  while (path.has_parent_path() && path != path.parent_path() &&
         !std::filesystem::exists(path, ignored)) {
    path = path.parent_path();
  }
  return path;
}

Finding look_at_directory(std::string topic, const std::filesystem::path& path) {
  const std::filesystem::path base = existing_part(path);
  if (::access(base.c_str(), W_OK) != 0) {
    return {Verdict::kBad, std::move(topic), fmt::format("{} cannot be written", path.string()),
            "mend its permissions, or set EXO_HOME to a directory of yours"};
  }
  std::error_code error;
  const auto space = std::filesystem::space(base, error);
  Finding finding{.topic = std::move(topic),
                  .detail = fmt::format("{}, {} free", path.string(),
                                        error ? "unknown" : human_bytes(space.available))};
  if (!error && space.available < (std::uint64_t{1} << 30)) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "the disk is almost full";
  }
  return finding;
}

Finding look_at_libraries() {
  return {
      .topic = "libraries",
      .detail = fmt::format("Boost {}.{}.{}, {}, fmt {}, spdlog {}.{}.{}, JSON {}.{}.{}",
                            BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100,
                            OpenSSL_version(OPENSSL_VERSION), FMT_VERSION, SPDLOG_VER_MAJOR,
                            SPDLOG_VER_MINOR, SPDLOG_VER_PATCH, NLOHMANN_JSON_VERSION_MAJOR,
                            NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH),
      .advice = {}};
}

Finding look_at_models(const Paths& paths) {
  std::vector<std::string> ids;
  for (const auto& model : models::Store(paths).list()) ids.push_back(model.id.value);
  return judge_models(ids);
}

}  // namespace

std::vector<Finding> examine(const Context& context) {
  return {look_at_processor(context.settings),
          look_at_isa(context.settings),
          look_at_memory(),
          look_at_bandwidth(context.settings),
          look_at_open_files(),
          look_at_port(context),
          look_at_directory("config", context.paths.config),
          look_at_directory("cache", context.paths.cache),
          look_at_directory("model store", context.paths.models),
          look_at_libraries(),
          look_at_models(context.paths)};
}

}  // namespace exo::app
