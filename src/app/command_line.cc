#include "app/command_line.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

#include "app/command.h"
#include "core/log.h"

namespace exo::app {
namespace {

constexpr const char* kDescription =
    "exo runs large language models on the machines you own.\n"
    "This node loads models into memory and answers through the OpenAI API and in the terminal.";

constexpr const char* kFooter =
    "Examples:\n"
    "  exo import model.gguf --name tiny    bring a model into the store\n"
    "  exo run tiny                         chat with it\n"
    "  exo run tiny \"Why is the sky blue?\"  ask one question\n"
    "  exo serve                            serve it to OpenAI clients on port 52415\n"
    "\n'exo COMMAND --help' tells more about each.";

}  // namespace

Result<Context> open_context(const Invocation& invocation) {
  Context context;
  const Environment environment = process_environment();
  EXO_TRY(context.paths, find_paths(environment));
  EXO_TRY(const Given file, read_config_file(context.paths.config / "config.toml"));
  EXO_TRY(context.settings, resolve_settings(invocation.flags, environment, file));
  context.settings.verbosity = invocation.quiet ? -1 : invocation.verbose;
  // Standard output is the command's own: without this the logger would write there.
  EXO_TRY(log::set_up({.verbosity = context.settings.verbosity}));
  return context;
}

int report(const Error& error) {
  std::string text = to_string(error);
  std::ranges::replace(text, '\n', ' ');
  fmt::print(stderr, "exo: {}\n", text);
  return kFailure;
}

int run_command_line(const std::vector<std::string>& arguments) {
  CommandTree tree(kDescription, "exo " EXO_VERSION, kFooter);
  add_serve(tree);
  add_run(tree);
  add_import(tree);
  add_list(tree);
  add_rm(tree);
  add_status(tree);
  add_show(tree);
  add_tokenize(tree);
  add_template(tree);
  add_logits(tree);
  add_perplexity(tree);
  add_bench(tree);
  add_doctor(tree);
  add_completion(tree);
  add_runner(tree);
  if (const auto status = tree.parse(arguments)) return *status;
  return tree.invocation().run ? tree.invocation().run() : kWrongUsage;
}

}  // namespace exo::app
