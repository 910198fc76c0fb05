// exo import: a file or directory becomes a model of the store.
#include <fmt/format.h>
#include <memory>

#include "app/command.h"
#include "app/progress.h"
#include "core/strings.h"
#include "models/store.h"

namespace exo::app {
namespace {

struct ImportOptions {
  std::string source, name;
};

int import_model(const Invocation& invocation, const ImportOptions& options) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  std::optional<ModelId> id;
  if (!options.name.empty()) {
    auto parsed = models::parse_model_id(options.name);
    if (!parsed) return report(parsed.error());
    id = std::move(*parsed);
  }
  models::Store store(context->paths);
  Result<models::StoredModel> model;
  {
    ProgressBar bar("importing " + options.source);
    model = store.import(options.source, id, models::ImportMode::kOwn,
                         [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  }
  if (!model) return report(model.error());
  fmt::print("imported {} ({})\n", model->id.value, human_bytes(model->bytes));
  return 0;
}

}  // namespace

void add_import(CommandTree& tree) {
  auto options = std::make_shared<ImportOptions>();
  Invocation& invocation = tree.invocation();
  tree.add("import", "Bring a model file or directory into the store")
      .required("SOURCE", options->source, "a .gguf file, or a directory with safetensors")
      .text("--name", options->name,
            "name it gets, as tiny or org/tiny (default: that of the file)")
      .settings({})
      .footer(
          "The files are hard-linked or cloned where the file system can, else copied; the "
          "originals stay.\n\n"
          "Examples:\n"
          "  exo import SmolLM2-135M-Instruct.Q4_1.gguf --name smollm2\n"
          "  exo import ./Llama-3.2-1B-4bit --name mlx-community/Llama-3.2-1B-4bit")
      .runs([&invocation, options] { return import_model(invocation, *options); });
}

}  // namespace exo::app
