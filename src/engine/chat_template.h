// Messages → prompt, over the `minijinja` crate configured as models.md 6.1.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace exo::engine {

// Immutable; thread-safe.
class ChatTemplate {
 public:
  // Errors: kInvalidInput: a syntax error, with its line.
  static Result<ChatTemplate> open(std::string_view jinja);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables`: an object; keys keep their order. Errors: kInvalidInput: what raise_exception()
  // said, or a render error; a template that runs on without end is stopped (fuel).
  Result<std::string> render(const Json& variables) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace exo::engine
