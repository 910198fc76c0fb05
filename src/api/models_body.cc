#include "api/models_body.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

namespace exo::api {
namespace {

std::string rfc3339(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

// Image models are not served, so nobody is offered them.
bool is_listed(const ModelState& state) {
  const std::vector<std::string>& tasks = state.model.card.tasks;
  return tasks.empty() || !std::ranges::all_of(tasks, [](const std::string& task) {
           return task == "TextToImage" || task == "ImageToImage";
         });
}

}  // namespace

Json model_body(const ModelState& state) {
  const models::StoredModel& model = state.model;
  const std::string& id = model.id.value;
  const std::string name = id.substr(id.rfind('/') + 1);
  constexpr std::uint64_t kMebibyte = 1 << 20;
  return {{"id", id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "exo"},
          {"hugging_face_id", id},
          {"name", name},
          {"description", ""},
          {"context_length", model.card.context_length},
          {"tags", Json::array()},
          {"storage_size_megabytes", (model.card.storage_bytes + kMebibyte / 2) / kMebibyte},
          {"supports_tensor", model.card.supports_tensor},
          {"tasks", model.card.tasks},
          {"is_custom", false},
          {"family", model.card.family},
          {"quantization", model.card.quantization},
          {"base_model", model.card.base_model},
          {"capabilities", model.card.capabilities},
          {"reasoning_dialect", model.card.reasoning_dialect},
          {"running", state.running},
          {"type", "model"},
          {"display_name", model.card.base_model.empty() ? name : model.card.base_model},
          {"created_at", rfc3339(model.created)}};
}

Json models_body(const std::vector<ModelState>& models) {
  Json data = Json::array();
  for (const ModelState& state : models) {
    if (is_listed(state)) data.push_back(model_body(state));
  }
  const Json first = data.empty() ? Json(nullptr) : data.front()["id"],
             last = data.empty() ? Json(nullptr) : data.back()["id"];
  return {{"object", "list"},
          {"data", std::move(data)},
          {"has_more", false},
          {"first_id", first},
          {"last_id", last}};
}

}  // namespace exo::api
