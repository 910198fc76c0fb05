// exo template: the prompt that a model sees for a conversation.
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "api/chat_messages.h"
#include "app/command.h"
#include "app/console.h"
#include "app/model_access.h"
#include "core/file.h"
#include "core/json.h"
#include "serving/prompt.h"

namespace exo::app {
namespace {

constexpr std::size_t kMaxFileBytes = 64 << 20;

struct TemplateOptions {
  std::string model, file;
};

// A list of messages, or an object with them and further variables of the template.
Result<protocol::TextRequest> read_request(const std::string& file) {
  EXO_TRY(const std::string text,
          file == "-" ? read_all_input(kMaxFileBytes) : read_file(file, kMaxFileBytes));
  auto parsed = parse_json(text);
  if (!parsed) {
    return fail(ErrorCode::kInvalidInput, fmt::format("not JSON: {}", to_string(parsed.error())),
                file);
  }
  Json messages = *parsed, variables = Json::object();
  if (parsed->is_object()) {
    variables = *parsed;
    messages = parsed->value("messages", Json());
    variables.erase("messages");
  }
  if (!messages.is_array()) {
    return fail(ErrorCode::kInvalidInput,
                "must be a list of messages, or an object whose messages are one", file);
  }
  protocol::TextRequest request;
  EXO_TRY(request.messages, api::parse_messages(messages));
  request.template_kwargs = dump_json(variables);
  return request;
}

// As a request's prompt is made, without the ids.
Result<std::string> render(const Context& context, const TemplateOptions& options) {
  EXO_TRY(const auto source, find_tokenizer(context, options.model));
  EXO_TRY(const models::TokenizerFiles files, source->tokenizer());
  const models::ChatTemplate* chosen = models::default_template(files);
  if (chosen == nullptr)
    return fail(ErrorCode::kNotFound, "the model has no chat template", options.model);
  EXO_TRY(const engine::ChatTemplate jinja, engine::ChatTemplate::open(chosen->text));
  EXO_TRY(const protocol::TextRequest request, read_request(options.file));
  const serving::PromptContext prompt{
      .special_tokens = files.special_tokens,
      .has_thinking = source->has_token("<think>") && source->has_token("</think>")};
  EXO_TRY(const serving::TemplateInput input, serving::template_input(request, prompt));
  EXO_TRY(const Json variables, parse_json(input.variables));
  EXO_TRY(std::string text, jinja.render(variables));
  return text + input.prefill;
}

int show_template(const Invocation& invocation, const TemplateOptions& options) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  const auto text = render(*context, options);
  if (!text) return report(text.error());
  std::fwrite(text->data(), 1, text->size(), stdout);
  if (::isatty(STDOUT_FILENO) == 1 && !text->ends_with('\n')) std::fputc('\n', stdout);
  return 0;
}

}  // namespace

void add_template(CommandTree& tree) {
  auto options = std::make_shared<TemplateOptions>();
  Invocation& invocation = tree.invocation();
  tree.add("template", "Show the prompt that a model's chat template makes of messages")
      .required("MODEL", options->model,
                "a model of the store, a file or a directory; a vocabulary is enough")
      .required("MESSAGES", options->file, "a JSON file, or - for standard input")
      .settings({})
      .footer(
          "The file holds a list of messages, or an object with \"messages\"; its other keys are "
          "variables\nof the template. The output is the prompt, byte for byte.\n\n"
          "Examples:\n"
          "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | exo template smollm2 -\n"
          "  exo template model.gguf conversation.json")
      .runs([&invocation, options] { return show_template(invocation, *options); });
}

}  // namespace exo::app
