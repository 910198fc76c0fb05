#include "app/conversation.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "core/strings.h"

namespace exo::app {

Conversation::Conversation(ChatParameters parameters) : parameters_(std::move(parameters)) {}

void Conversation::add_question(std::string text) { turns_.push_back({"user", std::move(text)}); }

void Conversation::add_answer(std::string text) {
  turns_.push_back({"assistant", std::move(text)});
}

void Conversation::drop_question() {
  if (!turns_.empty() && turns_.back().role == "user") turns_.pop_back();
}

void Conversation::clear() { turns_.clear(); }

Json Conversation::request() const {
  Json messages = Json::array();
  if (!parameters_.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", parameters_.system}});
  }
  for (const Turn& turn : turns_) {
    messages.push_back({{"role", turn.role}, {"content", turn.content}});
  }
  Json body{{"model", parameters_.model},
            {"messages", std::move(messages)},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}}};
  if (parameters_.temperature) body["temperature"] = *parameters_.temperature;
  if (parameters_.top_p) body["top_p"] = *parameters_.top_p;
  if (parameters_.min_p) body["min_p"] = *parameters_.min_p;
  if (parameters_.top_k) body["top_k"] = *parameters_.top_k;
  if (parameters_.max_tokens) body["max_tokens"] = *parameters_.max_tokens;
  if (parameters_.seed) body["seed"] = *parameters_.seed;
  if (!parameters_.stop.empty()) body["stop"] = parameters_.stop;
  return body;
}

LineKind kind_of_line(std::string_view line) {
  const std::string_view text = trim(line);
  if (text.empty()) return LineKind::kNothing;
  if (text == "/help" || text == "/?") return LineKind::kHelp;
  if (text == "/clear") return LineKind::kClear;
  if (text == "/exit" || text == "/bye" || text == "/quit") return LineKind::kExit;
  // "/etc/hosts is …" is a question, "/cleer" a slip.
  const bool is_one_word = text.find_first_of(" \t\n/", 1) == std::string_view::npos;
  return text.front() == '/' && is_one_word ? LineKind::kUnknownCommand : LineKind::kQuestion;
}

}  // namespace exo::app
