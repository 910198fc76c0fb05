// exo list: the models of the store.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include <nlohmann/json.hpp>

#include "app/command.h"
#include "core/json.h"
#include "core/strings.h"
#include "models/store.h"

namespace exo::app {
namespace {

Json to_json(const models::StoredModel& model) {
  return {{"id", model.id.value},
          {"bytes", model.bytes},
          {"created", model.created},
          {"path", model.path.string()},
          {"family", model.card.family},
          {"quantization", model.card.quantization},
          {"context_length", model.card.context_length},
          {"linked", model.linked}};
}

void print_table(const std::vector<models::StoredModel>& models) {
  std::size_t width = 5;
  for (const auto& model : models) width = std::max(width, model.id.value.size());
  fmt::print("{:<{}}  {:>8}  {:<10}  {:<16}  {:>8}\n", "model", width, "size", "family",
             "quantisation", "context");
  for (const auto& model : models) {
    fmt::print("{:<{}}  {:>8}  {:<10}  {:<16}  {:>8}\n", model.id.value, width,
               human_bytes(model.bytes), model.card.family, model.card.quantization,
               model.card.context_length);
  }
}

int list_models(const Invocation& invocation, bool as_json) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  const auto models = models::Store(context->paths).list();
  if (as_json) {
    Json array = Json::array();
    for (const auto& model : models) array.push_back(to_json(model));
    fmt::print("{}\n", pretty_json(array));
  } else if (models.empty()) {
    fmt::print("no models yet; 'exo import FILE' brings one in\n");
  } else {
    print_table(models);
  }
  return 0;
}

}  // namespace

void add_list(CommandTree& tree) {
  auto as_json = std::make_shared<bool>(false);
  Invocation& invocation = tree.invocation();
  tree.add("list", "Show the models of this machine")
      .alias("ls")
      .flag("--json", *as_json, "as a JSON list")
      .settings({})
      .footer("Examples:\n  exo list\n  exo list --json | jq '.[].id'")
      .runs([&invocation, as_json] { return list_models(invocation, *as_json); });
}

}  // namespace exo::app
