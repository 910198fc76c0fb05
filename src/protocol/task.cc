// Task and Report ⇄ JSON.
#include "protocol/task.h"

#include <array>

#include "core/overloaded.h"
#include "protocol/fields.h"

namespace exo::protocol {
namespace {

constexpr std::array kStates = {
    RunnerState::kIdle,  RunnerState::kLoading, RunnerState::kLoaded,       RunnerState::kWarmingUp,
    RunnerState::kReady, RunnerState::kRunning, RunnerState::kShuttingDown, RunnerState::kFailed};

Json hello_json(const Hello& hello) { return Json{{"Hello", Json{{"version", hello.version}}}}; }

Result<Hello> hello_from(const Json& json) {
  Hello hello;
  EXO_TRY(need_field(json, "version", hello.version));
  return hello;
}

Result<LoadModel> load_from(const Json& json) {
  LoadModel load;
  EXO_TRY(need_field(json, "id", load.id.value));
  EXO_TRY(need_field(json, "path", load.path));
  EXO_TRY(need_field(json, "model", load.model.value));
  return load;
}

Result<Generate> generate_from(const Json& json) {
  Generate generate;
  EXO_TRY(need_field(json, "id", generate.id.value));
  const auto request = json.find("request");
  if (request == json.end()) return wrong("request", "there");
  EXO_TRY(generate.request, text_request_from(*request));
  return generate;
}

Result<Cancel> cancel_from(const Json& json) {
  Cancel cancel;
  EXO_TRY(need_field(json, "id", cancel.id.value));
  return cancel;
}

Result<RunnerStatus> status_from(const Json& json) {
  RunnerStatus status;
  std::string state;
  EXO_TRY(need_field(json, "state", state));
  if (const auto error = json.find("error"); error != json.end()) {
    EXO_TRY(status.error, error_from_json(*error));
  }
  for (const RunnerState known : kStates) {
    if (name(known) != state) continue;
    status.state = known;
    return status;
  }
  return wrong("state", "a known state");
}

Result<LoadProgress> progress_from(const Json& json) {
  LoadProgress progress;
  EXO_TRY(need_field(json, "done_bytes", progress.done_bytes));
  EXO_TRY(need_field(json, "total_bytes", progress.total_bytes));
  return progress;
}

Result<LoadedModel> loaded_from(const Json& json) {
  LoadedModel loaded;
  EXO_TRY(need_field(json, "context_length", loaded.context_length));
  EXO_TRY(need_field(json, "weight_bytes", loaded.weight_bytes));
  EXO_TRY(need_field(json, "load_seconds", loaded.load_seconds));
  return loaded;
}

Result<TaskChunk> task_chunk_from(const Json& json) {
  TaskChunk chunk;
  EXO_TRY(need_field(json, "id", chunk.id.value));
  const auto body = json.find("chunk");
  if (body == json.end()) return wrong("chunk", "there");
  EXO_TRY(chunk.chunk, chunk_from(*body));
  return chunk;
}

}  // namespace

std::string_view name(RunnerState state) {
  switch (state) {
    case RunnerState::kIdle:
      return "Idle";
    case RunnerState::kLoading:
      return "Loading";
    case RunnerState::kLoaded:
      return "Loaded";
    case RunnerState::kWarmingUp:
      return "WarmingUp";
    case RunnerState::kReady:
      return "Ready";
    case RunnerState::kRunning:
      return "Running";
    case RunnerState::kShuttingDown:
      return "ShuttingDown";
    case RunnerState::kFailed:
      return "Failed";
  }
  return "Failed";
}

Json to_json(const Task& task) {
  return std::visit(
      Overloaded{
          [](const Hello& hello) { return hello_json(hello); },
          [](const LoadModel& load) {
            return Json{
                {"LoadModel",
                 Json{{"id", load.id.value}, {"path", load.path}, {"model", load.model.value}}}};
          },
          [](const Generate& generate) {
            return Json{{"Generate",
                         Json{{"id", generate.id.value}, {"request", to_json(generate.request)}}}};
          },
          [](const Cancel& cancel) { return Json{{"Cancel", Json{{"id", cancel.id.value}}}}; },
          [](const Shutdown&) { return Json{{"Shutdown", Json::object()}}; }},
      task);
}

Result<Task> task_from(const Json& json) {
  EXO_TRY(const Variant variant, read_variant(json, "task"));
  const auto& [type, body] = variant;
  if (type == "Hello") return hello_from(*body);
  if (type == "LoadModel") return load_from(*body);
  if (type == "Generate") return generate_from(*body);
  if (type == "Cancel") return cancel_from(*body);
  if (type == "Shutdown") return Shutdown{};
  return wrong("task", "of a known type");
}

Json to_json(const Report& report) {
  return std::visit(
      Overloaded{[](const Hello& hello) { return hello_json(hello); },
                 [](const RunnerStatus& status) {
                   Json body{{"state", std::string(name(status.state))}};
                   if (status.state == RunnerState::kFailed)
                     body["error"] = error_to_json(status.error);
                   return Json{{"RunnerStatus", std::move(body)}};
                 },
                 [](const LoadProgress& progress) {
                   return Json{{"LoadProgress", Json{{"done_bytes", progress.done_bytes},
                                                     {"total_bytes", progress.total_bytes}}}};
                 },
                 [](const LoadedModel& loaded) {
                   return Json{{"LoadedModel", Json{{"context_length", loaded.context_length},
                                                    {"weight_bytes", loaded.weight_bytes},
                                                    {"load_seconds", loaded.load_seconds}}}};
                 },
                 [](const TaskChunk& chunk) {
                   return Json{{"TaskChunk",
                                Json{{"id", chunk.id.value}, {"chunk", to_json(chunk.chunk)}}}};
                 }},
      report);
}

Result<Report> report_from(const Json& json) {
  EXO_TRY(const Variant variant, read_variant(json, "report"));
  const auto& [type, body] = variant;
  if (type == "Hello") return hello_from(*body);
  if (type == "RunnerStatus") return status_from(*body);
  if (type == "LoadProgress") return progress_from(*body);
  if (type == "LoadedModel") return loaded_from(*body);
  if (type == "TaskChunk") return task_chunk_from(*body);
  return wrong("report", "of a known type");
}

}  // namespace exo::protocol
