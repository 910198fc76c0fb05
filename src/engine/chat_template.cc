#include "engine/chat_template.h"

#include <utility>

#include "engine/rust_text.h"

namespace exo::engine {

struct ChatTemplate::State {
  ExoTemplate* handle = nullptr;
  ~State() { exo_template_free(handle); }
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::open(std::string_view jinja) {
  ExoText error{};
  auto state = std::make_unique<State>();
  state->handle = exo_template_new(jinja.data(), jinja.size(), &error);
  if (state->handle == nullptr) return rust_error(error);
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::render(const Json& variables) const {
  const std::string json = dump_json(variables);
  ExoText error{}, text{};
  if (!exo_template_render(state_->handle, json.data(), json.size(), &text, &error))
    return rust_error(error);
  return take_text(text);
}

}  // namespace exo::engine
