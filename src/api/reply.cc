#include "api/reply.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/models_body.h"
#include "core/id.h"

namespace exo::api {
namespace {

Reply health_reply(const Inference& inference) {
  const std::string problem = inference.health_problem();
  if (problem.empty()) return json_reply(200, {{"status", "ok"}});
  return json_reply(503, {{"status", "unavailable"}, {"reason", problem}});
}

Reply models_reply(const Inference& inference, const std::string& status) {
  // What a store lists is there as a whole, so "downloaded" restricts nothing.
  if (status.empty() || status == "downloaded")
    return json_reply(200, models_body(inference.models()));
  if (status == "running") {
    std::vector<ModelState> models = inference.models();
    std::erase_if(models, [](const ModelState& state) { return !state.running; });
    return json_reply(200, models_body(models));
  }
  return error_reply({.status = 400,
                      .type = "invalid_request_error",
                      .message = "'status' must be downloaded or running",
                      .param = "status"});
}

Reply model_reply(const Routed& routed, const Inference& inference, std::string_view request_id) {
  const auto model = inference.resolve(routed.parameter);
  if (!model) {
    const HttpError error = unknown_model(model.error());
    return routed.for_claude ? json_reply(error.status, claude_error_body(error, request_id))
                             : error_reply(error);
  }
  for (const ModelState& state : inference.models()) {
    if (state.model.id == model->id) return json_reply(200, model_body(state));
  }
  return json_reply(200, model_body({.model = *model}));
}

Reply cancel_reply(Inference& inference, const std::string& id) {
  // A client knows its reply's id, which is the command's with a prefix.
  constexpr std::array<std::string_view, 4> kPrefixes = {"chatcmpl-", "cmpl-", "msg_", "resp_"};
  const auto prefix = std::ranges::find_if(
      kPrefixes, [&](std::string_view candidate) { return id.starts_with(candidate); });
  const CommandId command{id.substr(prefix == kPrefixes.end() ? 0 : prefix->size())};
  if (inference.cancel(command))
    return json_reply(200, {{"message", "Command cancelled."}, {"command_id", command.value}});
  return json_reply(404, {{"error",
                           {{"message", "Command not found or already completed"},
                            {"type", "Not Found"},
                            {"param", nullptr},
                            {"code", 404}}}});
}

}  // namespace

Reply json_reply(int status, const Json& body) {
  return {.status = status, .body = dump_json(body)};
}

Reply error_reply(const HttpError& error) {
  Reply reply = json_reply(error.status, error_body(error));
  if (error.status == 429 || error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

Reply reply_to(const Routed& routed, Inference& inference, std::string_view request_id) {
  constexpr const char* kText = "text/plain; charset=utf-8";
  switch (routed.route) {
    case Route::kRoot:
      return {.type = kText,
              .body =
                  "exo is running. OpenAI clients: base_url = http://<this host>/v1; models: "
                  "GET /v1/models.\n"};
    case Route::kHealth:
      return health_reply(inference);
    case Route::kModels:
      return models_reply(inference, routed.parameter);
    case Route::kModel:
      return model_reply(routed, inference, request_id);
    case Route::kCancel:
      return cancel_reply(inference, routed.parameter);
    case Route::kPreflight:
      return {.type = kText, .body = "OK"};
    case Route::kOptions:
      return {.status = 204, .headers = {{"Allow", routed.allow}}};
    case Route::kChatCompletions:
      break;
  }
  return error_reply({.message = "no reply for this route"});
}

}  // namespace exo::api
