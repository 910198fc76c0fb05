// The grammar of the command line. Only command_tree.cc knows CLI11, whose header takes ten seconds
// to compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 calls itself so
class App;
class Option;
}  // namespace CLI

namespace exo::app {

template <typename T>
struct Range {
  T low, high;
};

// One parse: the flags that are settings, and what to run afterwards.
struct Invocation {
  Given flags;
  int verbose = 0;
  bool quiet = false;
  std::function<int()> run;
};

// A subcommand while it is being described. A name with dashes is a flag, one in capitals a
// position. What is bound must outlive the parse.
class Command {
 public:
  Command(CLI::App& app, Invocation& invocation) : app_(&app), invocation_(&invocation) {}

  Command& text(const char* name, std::string& value, const char* help);
  Command& texts(const char* name, std::vector<std::string>& values, const char* help);
  Command& required(const char* name, std::string& value, const char* help);
  Command& required(const char* name, std::vector<std::string>& values, const char* help);
  Command& choice(const char* name, std::string& value, std::vector<std::string> among,
                  const char* help);
  Command& number(const char* name, std::optional<double>& value, Range<double> range,
                  const char* help);
  Command& integer(const char* name, std::optional<std::int64_t>& value, Range<std::int64_t> range,
                   const char* help);
  Command& count(const char* name, std::size_t& value, Range<std::size_t> range, const char* help);
  Command& counts(const char* name, std::vector<std::size_t>& values, Range<std::size_t> range,
                  const char* help);
  Command& flag(const char* name, bool& value, const char* help);
  Command& hidden_flag(const char* name, bool& value);
  // Flags for these settings, and -v and -q.
  Command& settings(std::initializer_list<std::string_view> keys);
  Command& footer(const char* text);
  Command& alias(const char* name);
  // Not shown in help texts and completions.
  Command& hidden();
  // Runs after a parse that chose this subcommand; gives the exit status.
  void runs(std::function<int()> run);

 private:
  CLI::App* app_;
  Invocation* invocation_;
};

// What completions are made from.
struct CommandWords {
  struct Flag {
    std::vector<std::string> names = {};  // "-v", "--verbose"
    std::string help = {};
    bool takes_value = false;
  };
  std::string name = {}, help = {};
  std::vector<Flag> flags = {};
  bool takes_model = false, takes_file = false;
};

class CommandTree {
 public:
  CommandTree(const char* description, const char* version, const char* footer);
  ~CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  Command add(const char* name, const char* summary);
  Invocation& invocation();

  // Help, the version or an error in one sentence are printed, and the exit status returned;
  // nothing when there is a subcommand to run.
  std::optional<int> parse(const std::vector<std::string>& arguments);

  // The visible subcommands.
  std::vector<CommandWords> words() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exo::app
