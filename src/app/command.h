// What the subcommands share: how they register, find their settings, and report what went wrong.
#pragma once

#include "app/command_tree.h"
#include "app/settings.h"
#include "core/paths.h"
#include "core/result.h"

namespace exo::app {

// Where this user's files are, and the settings in force.
struct Context {
  Paths paths;
  Settings settings;
};
// Errors: kInvalidInput: a bad flag, variable or config.toml, or no home; `subject` is the source.
Result<Context> open_context(const Invocation& invocation);

// "exo: …" on standard error; returns the exit status.
int report(const Error& error);

// Each adds one subcommand to the tree.
void add_serve(CommandTree& tree);
void add_run(CommandTree& tree);
void add_import(CommandTree& tree);
void add_list(CommandTree& tree);
void add_rm(CommandTree& tree);
void add_status(CommandTree& tree);
void add_show(CommandTree& tree);
void add_tokenize(CommandTree& tree);
void add_template(CommandTree& tree);
void add_logits(CommandTree& tree);
void add_perplexity(CommandTree& tree);
void add_bench(CommandTree& tree);
void add_doctor(CommandTree& tree);
void add_completion(CommandTree& tree);
void add_runner(CommandTree& tree);

}  // namespace exo::app
