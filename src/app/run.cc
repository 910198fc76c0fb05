// exo run: a question, or a chat, with a model in the terminal.
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/command_line.h"
#include "app/console.h"
#include "app/conversation.h"
#include "app/node_access.h"
#include "app/process.h"
#include "app/progress.h"
#include "core/mutex.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "models/store.h"

namespace exo::app {
namespace {

constexpr std::size_t kMaxPromptBytes = std::size_t{16} << 20;

struct RunOptions {
  std::string model, prompt;
  ChatParameters parameters;
};

// What Ctrl-C and SIGTERM mean at each moment: they stop the answer under way, else wake the
// prompt.
class Interrupts {
 public:
  void on_signal(int signal_number, LineReader& reader) EXO_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (signal_number == SIGTERM) ending_ = true;
      if (answer_ && answer_->stop_requested())
        ::_exit(kInterrupted);  // it does not stop: asked twice
      if (answer_) answer_->request_stop();
      if (answer_) return;
    }
    reader.interrupt();
  }
  std::stop_token begin_answer() EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return answer_.emplace().get_token();
  }
  void end_answer() EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answer_.reset();
  }
  bool ending() EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return ending_;
  }

 private:
  Mutex mutex_;
  std::optional<std::stop_source> answer_ EXO_GUARDED_BY(mutex_);
  bool ending_ EXO_GUARDED_BY(mutex_) = false;
};

bool is_path(const std::string& text) {
  std::error_code ignored;
  return text.ends_with(".gguf") || text.starts_with("/") || text.starts_with("./") ||
         text.starts_with("../") || text == "." || std::filesystem::is_directory(text, ignored);
}

// The model that `text` names: one of the store, else a file or directory, which becomes one.
Result<ModelId> find_model(const Context& context, const std::string& text) {
  models::Store store(context.paths);
  const auto known = store.find(text);
  if (known) return known->id;
  if (!is_path(text)) {
    if (known.error().code != ErrorCode::kNotFound) return std::unexpected(known.error());
    return fail(ErrorCode::kNotFound,
                fmt::format("no model is called '{}'; 'exo list' shows those that are here, "
                            "'exo import FILE' brings one in",
                            text));
  }
  ProgressBar bar("registering " + text);
  EXO_TRY(const models::StoredModel model,
          store.import(text, std::nullopt, models::ImportMode::kRegister,
                       [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); }));
  return model.id;
}

class ChatSession {
 public:
  ChatSession(const Context& context, ChatParameters parameters)
      : context_(context), conversation_(std::move(parameters)) {}

  int ask_once(std::string prompt);
  int talk();
  void on_signal(int signal_number) { interrupts_.on_signal(signal_number, reader_); }

 private:
  Result<ChatOutcome> answer();
  Result<ChatOutcome> answer_from_node(std::stop_token stop);
  void take_question(std::string text);
  std::optional<std::string> read_question(LineReader::Line line);

  const Context& context_;
  Conversation conversation_;
  Interrupts interrupts_;
  LineReader reader_;
  std::optional<NodeAccess> node_;
};

Result<ChatOutcome> ChatSession::answer_from_node(std::stop_token stop) {
  if (!node_) {
    EXO_TRY(NodeAccess opened, NodeAccess::open(context_));
    node_.emplace(std::move(opened));
  }
  const auto print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  return node_->client().stream_chat(conversation_.request(), print, std::move(stop));
}

// Streams the answer to standard output and adds it to the conversation; a question without answer
// is dropped.
Result<ChatOutcome> ChatSession::answer() {
  const std::stop_token stop = interrupts_.begin_answer();
  auto outcome = answer_from_node(stop);
  const bool node_has_gone = !outcome && outcome.error().code == ErrorCode::kUnavailable;
  if (node_has_gone && node_ && !node_->is_own()) {
    node_.reset();  // it ended since the last answer: find or start another
    outcome = answer_from_node(stop);
  }
  interrupts_.end_answer();
  if (outcome && !outcome->text.empty()) {
    conversation_.add_answer(outcome->text);
  } else {
    conversation_.drop_question();
  }
  return outcome;
}

int ChatSession::ask_once(std::string prompt) {
  conversation_.add_question(std::move(prompt));
  const auto outcome = answer();
  if (!outcome) return report(outcome.error());
  if (!outcome->text.ends_with('\n')) std::puts("");
  return outcome->stopped ? kInterrupted : 0;
}

void ChatSession::take_question(std::string text) {
  if (!is_valid_utf8(text)) {
    fmt::print(stderr, "exo: that line is not valid UTF-8\n");
    return;
  }
  conversation_.add_question(std::move(text));
  const auto outcome = answer();
  if (!outcome) {
    report(outcome.error());
    if (outcome.error().code == ErrorCode::kContextLength)
      fmt::print(stderr, "/clear starts anew\n");
    return;
  }
  if (outcome->stopped) std::fputs(" [stopped]", stdout);
  if (outcome->finish_reason == "length") std::fputs(" [cut: the token limit is reached]", stdout);
  std::puts("\n");
}

// The whole question that begins with `line`: one that ends with a backslash goes on.
std::optional<std::string> ChatSession::read_question(LineReader::Line line) {
  std::string text;
  while (line.text && line.text->ends_with('\\')) {
    text += line.text->substr(0, line.text->size() - 1) + "\n";
    std::fputs("... ", stdout);
    std::fflush(stdout);
    line = reader_.read();
  }
  if (!line.text) return std::nullopt;
  return text + *line.text;
}

int ChatSession::talk() {
  fmt::print("Type a question; /help shows the commands, /exit or Ctrl-D ends.\n");
  while (!interrupts_.ending()) {
    std::fputs(">>> ", stdout);
    std::fflush(stdout);
    LineReader::Line first = reader_.read();
    const bool at_end = !first.text && !first.interrupted;
    if (at_end) break;
    const auto text = read_question(std::move(first));
    if (!text) {
      if (!interrupts_.ending()) fmt::print("\n/exit or Ctrl-D ends the chat\n");
      continue;
    }
    switch (kind_of_line(*text)) {
      case LineKind::kQuestion:
        take_question(*text);
        break;
      case LineKind::kNothing:
        break;
      case LineKind::kHelp:
        fmt::print("{}", kChatHelp);
        break;
      case LineKind::kClear:
        conversation_.clear();
        fmt::print("the conversation is forgotten\n");
        break;
      case LineKind::kExit:
        return 0;
      case LineKind::kUnknownCommand:
        fmt::print("there is no command {}; /help shows those there are\n", trim(*text));
        break;
    }
  }
  std::puts("");
  return 0;
}

int run_model(const Invocation& invocation, RunOptions options) {
  auto context = open_context(invocation);
  if (!context) return report(context.error());
  if (invocation.verbose == 0) context->settings.verbosity = -1;
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  if (options.prompt.empty() && !at_terminal) {
    auto text = read_all_input(kMaxPromptBytes);
    if (!text) return report(text.error());
    options.prompt = std::move(*text);
    if (trim(options.prompt).empty()) {
      fmt::print(stderr, "exo: there is no prompt: give one, or write it to standard input\n");
      return kWrongUsage;
    }
  }
  if (!is_valid_utf8(options.prompt)) {
    return report({.code = ErrorCode::kInvalidInput,
                   .message = "the prompt is not valid UTF-8",
                   .subject = {}});
  }
  const auto model = find_model(*context, options.model);
  if (!model) return report(model.error());
  options.parameters.model = model->value;

  ChatSession session(*context, std::move(options.parameters));
  SignalListener signals([&](int signal_number, int) { session.on_signal(signal_number); });
  return options.prompt.empty() ? session.talk() : session.ask_once(std::move(options.prompt));
}

constexpr const char* kFooter =
    "MODEL is a name that 'exo list' shows, or a .gguf file or model directory, which is "
    "registered "
    "where it is.\nA running node answers; if there is none, one is started and ends with the "
    "chat.\n\n"
    "Examples:\n"
    "  exo run smollm2                               chat\n"
    "  exo run smollm2 \"Why is the sky blue?\"        one answer, then end\n"
    "  exo run ./model.gguf --temperature 0 < question.txt\n"
    "  git diff | exo run smollm2 --system \"Summarise this change.\"";

}  // namespace

void add_run(CommandTree& tree) {
  auto options = std::make_shared<RunOptions>();
  ChatParameters& chat = options->parameters;
  Invocation& invocation = tree.invocation();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  tree.add("run", "Chat with a model, or ask it one question")
      .required("MODEL", options->model, "model to run")
      .text(
          "PROMPT", options->prompt,
          "the question; without one the chat is interactive, or the question is read from a pipe")
      .text("--system", chat.system, "instructions for the whole conversation")
      .number("--temperature", chat.temperature, {0, 2}, "0 always takes the likeliest token")
      .number("--top-p", chat.top_p, {0, 1},
              "choose among the likeliest that share this probability")
      .integer("--top-k", chat.top_k, {0, kMost}, "choose among the K likeliest; 0 is off")
      .number("--min-p", chat.min_p, {0, 1},
              "leave out what is this much less likely than the best")
      .integer("--max-tokens", chat.max_tokens, {1, kMost}, "end an answer after so many tokens")
      .integer("--seed", chat.seed, {0, kMost}, "the same seed gives the same answer")
      .texts("--stop", chat.stop, "end an answer at this text; may be repeated")
      .settings({"api-key", "threads", "cpus", "cpu-isa", "cpu-precision"})
      .footer(kFooter)
      .runs([&invocation, options] { return run_model(invocation, *options); });
}

}  // namespace exo::app
