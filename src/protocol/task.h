// What the node tells a runner, and what the runner reports. Source: cluster.md 11.1, without
// groups for now.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/id.h"
#include "core/json.h"
#include "core/result.h"
#include "protocol/chunk.h"
#include "protocol/request.h"

namespace exo::protocol {

inline constexpr std::int64_t kTaskProtocolVersion = 1;  // the first frame of either side says it

// node → runner
struct Hello {
  std::int64_t version = kTaskProtocolVersion;
};
struct LoadModel {
  TaskId id = {};
  std::string path = {};
  ModelId model = {};
};  // path: what models::open_checkpoint() takes
struct Generate {
  TaskId id = {};
  TextRequest request = {};
};
struct Cancel {
  TaskId id = {};
};  // of a Generate that is queued or runs
struct Shutdown {};
using Task = std::variant<Hello, LoadModel, Generate, Cancel, Shutdown>;

// runner → node
enum class RunnerState : std::uint8_t {
  kIdle,
  kLoading,
  kLoaded,
  kWarmingUp,
  kReady,
  kRunning,
  kShuttingDown,
  kFailed
};
std::string_view name(RunnerState state);

struct LoadProgress {
  std::uint64_t done_bytes = 0, total_bytes = 0;
};
struct LoadedModel {                 // what the node must know of a loaded model
  std::uint64_t context_length = 0;  // 0: unknown
  std::uint64_t weight_bytes = 0;
  double load_seconds = 0;
};
struct RunnerStatus {
  RunnerState state = RunnerState::kIdle;
  Error error = {};
};  // `error` with kFailed only
struct TaskChunk {
  TaskId id = {};
  Chunk chunk = {};
};
using Report = std::variant<Hello, RunnerStatus, LoadProgress, LoadedModel, TaskChunk>;

Json to_json(const Task& task);
Result<Task> task_from(const Json& json);
Json to_json(const Report& report);
Result<Report> report_from(const Json& json);

}  // namespace exo::protocol
