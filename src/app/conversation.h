// What a chat in the terminal knows: its messages, its parameters, and the lines that are commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace exo::app {

// An absent value leaves the choice to the model's card and the engine.
struct ChatParameters {
  std::string model = {};
  std::string system = {};  // empty: none
  std::optional<double> temperature = {}, top_p = {}, min_p = {};
  std::optional<std::int64_t> top_k = {}, max_tokens = {}, seed = {};
  std::vector<std::string> stop = {};
};

class Conversation {
 public:
  explicit Conversation(ChatParameters parameters);

  void add_question(std::string text);
  void add_answer(std::string text);
  // Takes the question back that got no answer.
  void drop_question();
  // Forgets everything but the system message.
  void clear();
  std::size_t size() const { return turns_.size(); }

  // The body of a streaming chat/completions request.
  Json request() const;

 private:
  struct Turn {
    std::string role, content;
  };
  ChatParameters parameters_;
  std::vector<Turn> turns_;
};

// What a line typed at the prompt asks for.
enum class LineKind : std::uint8_t { kQuestion, kNothing, kHelp, kClear, kExit, kUnknownCommand };
LineKind kind_of_line(std::string_view line);

inline constexpr std::string_view kChatHelp =
    "  /help    this text\n"
    "  /clear   forget the conversation so far\n"
    "  /exit    end (so does Ctrl-D)\n"
    "  Ctrl-C   stop an answer that is being written\n"
    "A line that ends with \\ goes on in the next one.\n";

}  // namespace exo::app
