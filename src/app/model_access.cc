#include "app/model_access.h"

#include <utility>

#include "app/progress.h"
#include "kernels/isa.h"
#include "models/checkpoint.h"
#include "models/store.h"

namespace exo::app {

Result<std::filesystem::path> model_path(const Context& context, const std::string& name) {
  const auto known = models::Store(context.paths).find(name);
  if (known) return known->path;
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return std::filesystem::path(name);
  return std::unexpected(known.error());
}

Result<void> choose_isa(const Settings& settings) {
  if (settings.isa.empty()) return {};
  EXO_TRY(const kernels::Isa isa, kernels::isa_from(settings.isa));
  return kernels::set_isa(isa);
}

kernels::Precision precision_of(const Settings& settings) {
  return settings.precision == "exact" ? kernels::Precision::kExact : kernels::Precision::kFast;
}

Result<std::unique_ptr<models::TokenizerSource>> find_tokenizer(const Context& context,
                                                                const std::string& name) {
  EXO_TRY(const std::filesystem::path path, model_path(context, name));
  return models::open_tokenizer_source(path);
}

Result<engine::Tokenizer> load_tokenizer(const models::TokenizerSource& source) {
  EXO_TRY(const std::string document, source.tokenizer_json());
  return engine::Tokenizer::open(document);
}

Result<LocalModel> load_model(const Context& context, const std::string& name) {
  const Settings& settings = context.settings;
  EXO_TRY(choose_isa(settings));
  EXO_TRY(const std::filesystem::path path, model_path(context, name));
  EXO_TRY(const auto checkpoint, models::open_checkpoint(path));
  LocalModel local{.pool = std::make_unique<kernels::ThreadPool>(kernels::ThreadPoolOptions{
                       .threads = settings.threads, .cpus = settings.cpus})};
  ProgressBar bar("loading " + name);
  EXO_TRY(local.model,
          engine::Model::load(*checkpoint, *local.pool,
                              {.precision = precision_of(settings),
                               .progress = [&](std::uint64_t done, std::uint64_t total) {
                                 bar.update(done, total);
                               }}));
  return local;
}

}  // namespace exo::app
