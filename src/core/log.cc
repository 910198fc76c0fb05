#include "core/log.h"

#include <memory>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <utility>
#include <vector>

#include "core/file.h"

namespace exo::log {
namespace {

spdlog::level::level_enum level_of(int verbosity) {
  if (verbosity < 0) return spdlog::level::warn;
  return verbosity == 0 ? spdlog::level::info : spdlog::level::debug;
}

}  // namespace

Result<void> set_up(const Options& options) {
  const auto level = level_of(options.verbosity);
  auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  console->set_level(level);
  console->set_pattern(options.verbosity > 0 ? "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v"
                                             : "%H:%M:%S %^%l%$ %v");
  std::vector<spdlog::sink_ptr> sinks{console};

  Result<void> result;
  if (!options.file.empty()) {
    result = make_directories(options.file.parent_path());
    if (result) {
      try {
        auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
            options.file, options.max_bytes, options.kept_files, /*rotate_on_open=*/true);
        file->set_level(options.verbosity > 0 ? spdlog::level::debug : spdlog::level::info);
        file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %P %v");
        sinks.push_back(std::move(file));
      } catch (const spdlog::spdlog_ex& error) {
        result = fail(ErrorCode::kIo, error.what(), options.file);
      }
    }
  }
  auto logger = std::make_shared<spdlog::logger>("exo", sinks.begin(), sinks.end());
  logger->set_level(options.verbosity > 0 ? spdlog::level::debug : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return result;
}

}  // namespace exo::log
