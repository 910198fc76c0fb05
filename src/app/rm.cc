// exo rm: removes models from the store.
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "core/strings.h"
#include "models/store.h"

namespace exo::app {
namespace {

int remove_models(const Invocation& invocation, const std::vector<std::string>& names) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  models::Store store(context->paths);
  int status = 0;
  for (const std::string& name : names) {
    const auto removed = store.remove(name);
    if (!removed) {
      status = report(removed.error());
    } else if (removed->linked) {
      fmt::print("removed {}; its files stay where they are\n", removed->id.value);
    } else {
      fmt::print("removed {} ({})\n", removed->id.value, human_bytes(removed->bytes));
    }
  }
  return status;
}

}  // namespace

void add_rm(CommandTree& tree) {
  auto names = std::make_shared<std::vector<std::string>>();
  Invocation& invocation = tree.invocation();
  tree.add("rm", "Remove models from the store")
      .required("MODEL", *names, "names as 'exo list' shows them, or their last part")
      .settings({})
      .footer("Files outside the store are never touched.\n\nExamples:\n  exo rm smollm2")
      .runs([&invocation, names] { return remove_models(invocation, *names); });
}

}  // namespace exo::app
