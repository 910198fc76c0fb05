#include "api/chat_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/fields.h"

namespace exo::api {
namespace {

using protocol::Message;
using protocol::ToolCall;

Result<std::string> parse_part(const Json& part, const std::string& path) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object())
    return fail(ErrorCode::kInvalidInput, fmt::format("'{}' must be an object", path), path);
  const Fields fields(part, path);
  EXO_TRY(const auto type, fields.text("type"));
  if (type == "text" || type == "refusal") {
    EXO_TRY(const auto text, fields.text(*type));
    if (!text) return fields.bad(*type, "is required");
    return *text;
  }
  if (type == "image_url" || type == "input_audio" || type == "file") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}.type': parts of type {} are not available yet", path, *type),
                path + ".type");
  }
  return fields.bad("type", "must be text or refusal");
}

// A string, null, a part or a list of parts; texts are joined by newlines.
Result<std::string> parse_content(const Fields& fields) {
  const Json* content = fields.find("content");
  if (content == nullptr) return std::string();
  if (content->is_string()) return content->get<std::string>();
  const std::string path = fields.name("content");
  if (content->is_object()) return parse_part(*content, path);
  if (!content->is_array()) return fields.bad("content", "must be a string or a list of parts");
  std::string joined;
  for (std::size_t i = 0; i < content->size(); ++i) {
    EXO_TRY(const std::string text, parse_part((*content)[i], fmt::format("{}.{}", path, i)));
    if (i > 0) joined += '\n';
    joined += text;
  }
  return joined;
}

Result<ToolCall> parse_tool_call(const Json& call, const std::string& path) {
  if (!call.is_object())
    return fail(ErrorCode::kInvalidInput, fmt::format("'{}' must be an object", path), path);
  const Fields fields(call, path);
  ToolCall result;
  EXO_TRY(const auto id, fields.text("id"));
  result.id = id.value_or("");
  const bool custom = fields.find("custom") != nullptr;
  const Json* function = fields.find(custom ? "custom" : "function");
  if (function == nullptr || !function->is_object())
    return fields.bad("function", "must be an object");
  const Fields inner(*function, fields.name(custom ? "custom" : "function"));
  EXO_TRY(const auto name, inner.text("name"));
  if (!name) return inner.bad("name", "is required");
  result.name = *name;
  if (custom) {
    EXO_TRY(const auto input, inner.text("input"));
    result.arguments = dump_json({{"input", input.value_or("")}});
  } else {
    EXO_TRY(const auto arguments, inner.text("arguments"));
    result.arguments = arguments.value_or("{}");
  }
  return result;
}

Result<void> parse_tool_calls(const Fields& fields, std::size_t index, Message& message) {
  if (const Json* calls = fields.find("tool_calls")) {
    if (!calls->is_array()) return fields.bad("tool_calls", "must be a list");
    for (std::size_t i = 0; i < calls->size(); ++i) {
      EXO_TRY(ToolCall call,
              parse_tool_call((*calls)[i], fmt::format("{}.{}", fields.name("tool_calls"), i)));
      message.tool_calls.push_back(std::move(call));
    }
  }
  if (const Json* call = fields.find("function_call"); call != nullptr && call->is_object()) {
    const Fields inner(*call, fields.name("function_call"));
    EXO_TRY(const auto name, inner.text("name"));
    EXO_TRY(const auto arguments, inner.text("arguments"));
    message.tool_calls.push_back({.id = fmt::format("call_legacy_{}", index),
                                  .name = name.value_or(""),
                                  .arguments = arguments.value_or("{}")});
  }
  return {};
}

Result<std::optional<Message>> parse_message(const Json& json, std::size_t index) {
  const std::string path = fmt::format("messages.{}", index);
  if (!json.is_object())
    return fail(ErrorCode::kInvalidInput, fmt::format("'{}' must be an object", path), path);
  const Fields fields(json, path);
  Message message;
  EXO_TRY(const auto role, fields.text("role"));
  if (!role) return fields.bad("role", "is required");
  message.role = *role == "developer" ? "system" : *role == "function" ? "tool" : *role;
  if (message.role != "system" && message.role != "user" && message.role != "assistant" &&
      message.role != "tool") {
    return fields.bad("role", "must be system, developer, user, assistant or tool");
  }
  EXO_TRY(message.content, parse_content(fields));
  EXO_TRY(message.name, fields.text("name"));
  EXO_TRY(message.tool_call_id, fields.text("tool_call_id"));
  if (*role == "function") message.tool_call_id = message.name;
  EXO_TRY(message.reasoning_content, fields.text("reasoning_content"));
  if (!message.reasoning_content) {
    EXO_TRY(message.reasoning_content, fields.text("reasoning"));
  }
  EXO_TRY(parse_tool_calls(fields, index, message));
  const bool empty =
      message.content.empty() && !message.reasoning_content && message.tool_calls.empty();
  return empty && message.role != "tool" ? std::optional<Message>()
                                         : std::optional(std::move(message));
}

}  // namespace

Result<std::vector<Message>> parse_messages(const Json& list) {
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXO_TRY(auto message, parse_message(list[i], i));
    if (message) messages.push_back(std::move(*message));
  }
  if (messages.empty())
    return fail(ErrorCode::kInvalidInput, "'messages' holds no message with content", "messages");
  return messages;
}

}  // namespace exo::api
