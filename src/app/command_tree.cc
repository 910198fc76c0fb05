#include "app/command_tree.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include <CLI/CLI.hpp>

#include "app/command_line.h"

namespace exo::app {
namespace {

// The deepest subcommand that was named, for the hint after an error.
std::string command_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "exo" : "exo " + chosen.front()->get_name();
}

int explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::string message = error.what();
  std::ranges::replace(message, '\n', ' ');
  fmt::print(stderr, "exo: {}; '{} --help' shows how\n", message, command_of(app));
  return kWrongUsage;
}

// The help text up to a bracket, colon or semicolon, which zsh would read as syntax.
std::string short_help(std::string_view text) {
  std::string result(text.substr(0, text.find_first_of("[(;:\n")));
  std::erase(result, ']');
  while (result.ends_with(' ')) result.pop_back();
  return result;
}

// CLI11's own description of a range is long where one end is as large as numbers get.
template <typename T>
CLI::Validator within(Range<T> range) {
  CLI::Validator validator = CLI::Range(range.low, range.high);
  if (range.high == std::numeric_limits<T>::max()) {
    validator.description(fmt::format("from {}", range.low));
  } else {
    validator.description(fmt::format("{} to {}", range.low, range.high));
  }
  return validator;
}

bool is_positional(const CLI::Option& option) {
  return option.get_snames().empty() && option.get_lnames().empty();
}

CommandWords::Flag flag_of(const CLI::Option& option) {
  CommandWords::Flag flag{.help = short_help(option.get_description()),
                          .takes_value = option.get_items_expected_max() > 0};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  return flag;
}

}  // namespace

Command& Command::text(const char* name, std::string& value, const char* help) {
  app_->add_option(name, value, help);
  return *this;
}

Command& Command::texts(const char* name, std::vector<std::string>& values, const char* help) {
  app_->add_option(name, values, help)->allow_extra_args(false);
  return *this;
}

Command& Command::required(const char* name, std::string& value, const char* help) {
  app_->add_option(name, value, help)->required();
  return *this;
}

Command& Command::required(const char* name, std::vector<std::string>& values, const char* help) {
  app_->add_option(name, values, help)->required();
  return *this;
}

Command& Command::choice(const char* name, std::string& value, std::vector<std::string> among,
                         const char* help) {
  app_->add_option(name, value, help)->required()->check(CLI::IsMember(std::move(among)));
  return *this;
}

Command& Command::number(const char* name, std::optional<double>& value, Range<double> range,
                         const char* help) {
  app_->add_option(name, value, help)->check(within(range))->type_name("X");
  return *this;
}

Command& Command::integer(const char* name, std::optional<std::int64_t>& value,
                          Range<std::int64_t> range, const char* help) {
  app_->add_option(name, value, help)->check(within(range))->type_name("N");
  return *this;
}

Command& Command::count(const char* name, std::size_t& value, Range<std::size_t> range,
                        const char* help) {
  app_->add_option(name, value, help)->check(within(range))->type_name("N")->capture_default_str();
  return *this;
}

Command& Command::counts(const char* name, std::vector<std::size_t>& values,
                         Range<std::size_t> range, const char* help) {
  app_->add_option(name, values, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(within(range))
      ->type_name("N,...");
  return *this;
}

Command& Command::flag(const char* name, bool& value, const char* help) {
  app_->add_flag(name, value, help);
  return *this;
}

Command& Command::hidden_flag(const char* name, bool& value) {
  app_->add_flag(name, value)->group("");
  return *this;
}

Command& Command::settings(std::initializer_list<std::string_view> keys) {
  for (const SettingSpec& spec : setting_specs()) {
    if (std::ranges::find(keys, spec.key) == keys.end()) continue;
    const std::string flag = fmt::format("--{}", spec.key);
    const std::string help = fmt::format("{} [{}]", spec.help, spec.environment);
    std::vector<std::string>& texts = invocation_->flags[std::string(spec.key)];
    if (spec.form == SettingSpec::Form::kSwitch) {
      app_->add_flag_callback(flag, [&texts] { texts = {"true"}; }, help);
      continue;
    }
    CLI::Option* option =
        spec.form == SettingSpec::Form::kList
            ? app_->add_option(flag, texts, help)->allow_extra_args(false)
            : app_->add_option_function<std::string>(
                      flag, [&texts](const std::string& text) { texts = {text}; }, help)
                  ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    option->type_name(std::string(spec.value_name));
  }
  app_->add_flag("-v,--verbose", invocation_->verbose, "log more");
  app_->add_flag("-q,--quiet", invocation_->quiet, "log warnings only");
  return *this;
}

Command& Command::footer(const char* text) {
  app_->footer(text);
  return *this;
}

Command& Command::alias(const char* name) {
  app_->alias(name);
  return *this;
}

Command& Command::hidden() {
  app_->group("");
  return *this;
}

void Command::runs(std::function<int()> run) {
  app_->callback([invocation = invocation_, run = std::move(run)] { invocation->run = run; });
}

struct CommandTree::State {
  CLI::App app;
  Invocation invocation;
};

CommandTree::CommandTree(const char* description, const char* version, const char* footer)
    : state_(std::make_unique<State>()) {
  state_->app.name("exo");
  state_->app.description(description);
  state_->app.set_version_flag("--version", version);
  state_->app.footer(footer);
  state_->app.require_subcommand(0, 1);
}

CommandTree::~CommandTree() = default;

Command CommandTree::add(const char* name, const char* summary) {
  return {*state_->app.add_subcommand(name, summary), state_->invocation};
}

Invocation& CommandTree::invocation() { return state_->invocation; }

std::optional<int> CommandTree::parse(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(state_->app.help().c_str(), stdout);
    return kWrongUsage;
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    state_->app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return explain(state_->app, error);
  }
  return std::nullopt;
}

std::vector<CommandWords> CommandTree::words() const {
  std::vector<CommandWords> commands;
  const CLI::App& root = state_->app;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (app->get_group().empty()) continue;  // hidden
    CommandWords command{.name = app->get_name(), .help = short_help(app->get_description())};
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_name() == "MODEL") command.takes_model = true;
      if (option->get_name() == "SOURCE") command.takes_file = true;
      if (!is_positional(*option) && !option->get_group().empty()) {
        command.flags.push_back(flag_of(*option));
      }
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace exo::app
