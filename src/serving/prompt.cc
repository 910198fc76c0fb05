// Messages → ids.
#include "serving/prompt.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include <nlohmann/json.hpp>

namespace exo::serving {
namespace {

using protocol::Message;

bool is_system(const Message& message) {
  return message.role == "system" || message.role == "developer";
}

Json tool_call_json(const protocol::ToolCall& call) {
  // Several templates iterate over the arguments; what is no object stays text.
  Json arguments = call.arguments;
  if (Result<Json> parsed = parse_json(call.arguments); parsed && parsed->is_object())
    arguments = *std::move(parsed);
  return Json{{"id", call.id},
              {"type", "function"},
              {"function", Json{{"name", call.name}, {"arguments", std::move(arguments)}}}};
}

Json message_json(const Message& message) {
  Json json{{"role", message.role}, {"content", message.content}};
  if (message.reasoning_content) json["reasoning_content"] = *message.reasoning_content;
  if (!message.tool_calls.empty()) {
    Json calls = Json::array();
    for (const protocol::ToolCall& call : message.tool_calls) calls.push_back(tool_call_json(call));
    json["tool_calls"] = std::move(calls);
  }
  if (message.tool_call_id) json["tool_call_id"] = *message.tool_call_id;
  if (message.name) json["name"] = *message.name;
  return json;
}

// All system and developer messages become one in front; `count` messages are taken.
Json messages_json(const std::vector<Message>& messages, std::size_t count) {
  Json list = Json::array();
  std::string system;
  for (std::size_t i = 0; i < count; ++i) {
    const Message& message = messages[i];
    if (!is_system(message)) {
      list.push_back(message_json(message));
    } else if (!message.content.empty()) {
      if (!system.empty()) system += '\n';
      system += message.content;
    }
  }
  if (!system.empty())
    list.insert(list.begin(), Json{{"role", "system"}, {"content", std::move(system)}});
  return list;
}

bool has_prefill(const std::vector<Message>& messages) {
  return !messages.empty() && messages.back().role == "assistant" &&
         messages.back().tool_calls.empty();
}

Result<Json> variables_of(const protocol::TextRequest& request, const PromptContext& context,
                          std::size_t count) {
  Json variables = Json::object();
  for (const auto& [name, text] : context.special_tokens) variables[name] = text;
  variables["messages"] = messages_json(request.messages, count);
  variables["add_generation_prompt"] = true;
  if (request.enable_thinking) {
    variables["enable_thinking"] = *request.enable_thinking;
    variables["thinking"] = *request.enable_thinking;
  } else if (context.has_thinking) {
    // An answer that was begun must not continue inside a thinking block.
    variables["enable_thinking"] = !has_prefill(request.messages);
  }
  if (request.reasoning_effort) variables["reasoning_effort"] = *request.reasoning_effort;
  const Result<Json> extra = parse_json(request.template_kwargs);
  if (!extra || !extra->is_object()) {
    return fail(ErrorCode::kInvalidInput, "chat_template_kwargs must be a JSON object",
                "chat_template_kwargs");
  }
  for (const auto& [name, value] : extra->items()) variables[name] = value;
  return variables;
}

Result<std::vector<std::uint32_t>> raw_ids(const std::string& text, const PromptContext& context) {
  EXO_TRY(std::vector<std::uint32_t> ids, context.encode(text));
  const auto bos = context.bos_token_id;
  if (context.add_bos && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

Result<std::vector<std::uint32_t>> chat_ids(const protocol::TextRequest& request,
                                            const PromptContext& context) {
  if (!context.render) {
    return fail(ErrorCode::kInvalidInput,
                "this model has no chat template; send a raw prompt to the completions endpoint",
                "messages");
  }
  EXO_TRY(const TemplateInput input, template_input(request, context));
  EXO_TRY(const Json variables, parse_json(input.variables));
  EXO_TRY(const std::string text, context.render(variables));
  return context.encode(text + input.prefill);
}

}  // namespace

Result<TemplateInput> template_input(const protocol::TextRequest& request,
                                     const PromptContext& context) {
  const bool prefill = has_prefill(request.messages);
  const std::size_t count = request.messages.size() - (prefill ? 1 : 0);
  EXO_TRY(const Json variables, variables_of(request, context, count));
  return TemplateInput{.variables = dump_json(variables),
                       .prefill = prefill ? request.messages.back().content : std::string()};
}

Result<Prompt> make_prompt(const protocol::TextRequest& request, const PromptContext& context) {
  Prompt prompt;
  if (request.prompt) {
    EXO_TRY(prompt.ids, raw_ids(*request.prompt, context));
  } else {
    EXO_TRY(prompt.ids, chat_ids(request, context));
  }
  // Nothing to continue from: a model that has a first token starts there.
  if (prompt.ids.empty() && context.bos_token_id) prompt.ids.push_back(*context.bos_token_id);
  if (prompt.ids.empty()) return fail(ErrorCode::kInvalidInput, "the prompt is empty", "prompt");
  const std::size_t limit = context.context_length;
  if (limit > 0 && prompt.ids.size() > limit) {
    return fail(ErrorCode::kContextLength,
                fmt::format("prompt is too long: {} tokens > {} maximum", prompt.ids.size(), limit),
                request.prompt ? "prompt" : "messages");
  }
  const std::int64_t wanted = request.max_output_tokens.value_or(kDefaultMaxTokens);
  prompt.max_tokens = static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0));
  if (limit > 0) prompt.max_tokens = std::min(prompt.max_tokens, limit - prompt.ids.size());
  return prompt;
}

}  // namespace exo::serving
