#include "app/completion.h"

#include <fmt/format.h>
#include <memory>

#include "app/command.h"

namespace exo::app {
namespace {

// Prints the names of the store's models, one a line; runs in every completion script.
constexpr const char* kListModels =
    "exo list --json 2>/dev/null | sed -n 's/^ *\"id\": \"\\(.*\\)\",*$/\\1/p'";

std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string joined_flags(const CommandWords& command) {
  std::string words;
  for (const auto& flag : command.flags) {
    for (const std::string& name : flag.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

std::string fish_flag(const std::string& command, const CommandWords::Flag& flag) {
  std::string line = fmt::format("complete -c exo -n '__fish_seen_subcommand_from {}'", command);
  for (const std::string& name : flag.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (flag.takes_value) line += " -r";
  return line + " -d " + shell_quoted(flag.help) + "\n";
}

}  // namespace

std::string bash_completion(const std::vector<CommandWords>& commands) {
  std::string names, cases;
  for (const auto& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    std::string others;
    if (command.takes_model) others += fmt::format("$({}) ", kListModels);
    cases +=
        fmt::format("    {}) words=\"{}{}\" ;;\n", command.name, others, joined_flags(command));
  }
  return "# bash completion for exo; made by `exo completion bash`\n"
         "_exo() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} words\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases + "    *) words=\"" + names +
         " --help --version\" ;;\n"
         "  esac\n"
         "  if [[ $COMP_CWORD -eq 1 ]]; then words=\"" +
         names +
         " --help --version\"; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _exo exo\n";
}

std::string zsh_completion(const std::vector<CommandWords>& commands) {
  std::string descriptions, cases;
  for (const auto& command : commands) {
    descriptions += "    " + shell_quoted(command.name + ":" + command.help) + "\n";
    std::string arguments;
    for (const auto& flag : command.flags) {
      for (const std::string& name : flag.names) {
        arguments += " " + shell_quoted(fmt::format("{}[{}]{}", name, flag.help,
                                                    flag.takes_value ? ":value:_files" : ""));
      }
    }
    if (command.takes_model) arguments += " '*:model:_exo_models'";
    if (command.takes_file && !command.takes_model) arguments += " '*:file:_files'";
    cases += fmt::format("    {}) _arguments{} ;;\n", command.name, arguments);
  }
  return fmt::format(
      "#compdef exo\n"
      "# zsh completion for exo; made by `exo completion zsh`\n"
      "_exo_models() {{\n"
      "  local -a models\n"
      "  models=(${{(f)\"$({})\"}})\n"
      "  _describe model models\n"
      "  _files\n"
      "}}\n"
      "_exo() {{\n"
      "  local -a commands\n"
      "  commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n{}  esac\n"
      "}}\n"
      "_exo \"$@\"\n",
      kListModels, descriptions, cases);
}

std::string fish_completion(const std::vector<CommandWords>& commands) {
  std::string script =
      "# fish completion for exo; made by `exo completion fish`\n"
      "complete -c exo -n __fish_use_subcommand -f\n";
  for (const auto& command : commands) {
    script += fmt::format("complete -c exo -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          shell_quoted(command.help));
    if (command.takes_model) {
      script += fmt::format(
          "complete -c exo -n '__fish_seen_subcommand_from {}' -a \"({})\"\n", command.name,
          "exo list --json 2>/dev/null | string match -rg '\\\"id\\\": \\\"(.*)\\\"'");
    }
    for (const auto& flag : command.flags) script += fish_flag(command.name, flag);
  }
  return script;
}

void add_completion(CommandTree& tree) {
  auto shell = std::make_shared<std::string>();
  tree.add("completion", "Print a completion script for a shell")
      .choice("SHELL", *shell, {"bash", "zsh", "fish"}, "bash, zsh or fish")
      .footer(
          "Examples:\n"
          "  exo completion bash > ~/.local/share/bash-completion/completions/exo\n"
          "  exo completion zsh > ~/.zfunc/_exo\n"
          "  exo completion fish > ~/.config/fish/completions/exo.fish")
      .runs([&tree, shell] {
        const auto commands = tree.words();
        const std::string script = *shell == "bash"  ? bash_completion(commands)
                                   : *shell == "zsh" ? zsh_completion(commands)
                                                     : fish_completion(commands);
        fmt::print("{}", script);
        return 0;
      });
}

}  // namespace exo::app
