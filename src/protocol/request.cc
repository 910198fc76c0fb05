// TextRequest ⇄ JSON.
#include "protocol/request.h"

#include <charconv>

#include "protocol/fields.h"

namespace exo::protocol {
namespace {

Json to_json(const ToolCall& call) {
  return Json{{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}};
}

Result<ToolCall> tool_call_from(const Json& json) {
  EXO_TRY(check_object(json, "tool_calls"));
  ToolCall call;
  EXO_TRY(read_field(json, "id", call.id));
  EXO_TRY(need_field(json, "name", call.name));
  EXO_TRY(need_field(json, "arguments", call.arguments));
  return call;
}

Json to_json(const Message& message) {
  Json json{{"role", message.role}, {"content", message.content}};
  put_if(json, "reasoning_content", message.reasoning_content);
  if (!message.tool_calls.empty()) {
    Json calls = Json::array();
    for (const ToolCall& call : message.tool_calls) calls.push_back(to_json(call));
    json["tool_calls"] = std::move(calls);
  }
  put_if(json, "tool_call_id", message.tool_call_id);
  put_if(json, "name", message.name);
  return json;
}

Result<Message> message_from(const Json& json) {
  EXO_TRY(check_object(json, "messages"));
  Message message;
  EXO_TRY(need_field(json, "role", message.role));
  EXO_TRY(need_field(json, "content", message.content));
  EXO_TRY(read_field(json, "reasoning_content", message.reasoning_content));
  EXO_TRY(read_list(json, "tool_calls", message.tool_calls, tool_call_from));
  EXO_TRY(read_field(json, "tool_call_id", message.tool_call_id));
  EXO_TRY(read_field(json, "name", message.name));
  return message;
}

Json to_json(const SamplingParameters& sampling) {
  Json json = Json::object();
  put_if(json, "temperature", sampling.temperature);
  put_if(json, "top_p", sampling.top_p);
  put_if(json, "min_p", sampling.min_p);
  put_if(json, "top_k", sampling.top_k);
  put_if(json, "repetition_penalty", sampling.repetition_penalty);
  put_if(json, "presence_penalty", sampling.presence_penalty);
  put_if(json, "frequency_penalty", sampling.frequency_penalty);
  put_if(json, "repetition_context_size", sampling.repetition_context_size);
  put_if(json, "seed", sampling.seed);
  if (!sampling.logit_bias.empty()) {
    Json bias = Json::object();
    for (const auto& [id, value] : sampling.logit_bias) bias[std::to_string(id)] = value;
    json["logit_bias"] = std::move(bias);
  }
  return json;
}

Result<void> read_bias(const Json& object, std::map<std::uint32_t, double>& out) {
  const auto found = object.find("logit_bias");
  if (found == object.end()) return {};
  EXO_TRY(check_object(*found, "logit_bias"));
  for (const auto& [key, value] : found->items()) {
    std::uint32_t id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size())
      return wrong("logit_bias", "an object from token ids to numbers");
    EXO_TRY(read_value(value, "logit_bias", out[id]));
  }
  return {};
}

Result<SamplingParameters> sampling_from(const Json& json) {
  EXO_TRY(check_object(json, "sampling"));
  SamplingParameters sampling;
  EXO_TRY(read_field(json, "temperature", sampling.temperature));
  EXO_TRY(read_field(json, "top_p", sampling.top_p));
  EXO_TRY(read_field(json, "min_p", sampling.min_p));
  EXO_TRY(read_field(json, "top_k", sampling.top_k));
  EXO_TRY(read_field(json, "repetition_penalty", sampling.repetition_penalty));
  EXO_TRY(read_field(json, "presence_penalty", sampling.presence_penalty));
  EXO_TRY(read_field(json, "frequency_penalty", sampling.frequency_penalty));
  EXO_TRY(read_field(json, "repetition_context_size", sampling.repetition_context_size));
  EXO_TRY(read_field(json, "seed", sampling.seed));
  EXO_TRY(read_bias(json, sampling.logit_bias));
  return sampling;
}

Result<std::string> stop_from(const Json& json) {
  std::string text;
  EXO_TRY(read_value(json, "stop", text));
  if (text.empty()) return wrong("stop", "a list of strings that are not empty");
  return text;
}

}  // namespace

Json to_json(const TextRequest& request) {
  Json messages = Json::array();
  for (const Message& message : request.messages) messages.push_back(to_json(message));
  Json json{{"model", request.model.value}, {"messages", std::move(messages)}};
  put_if(json, "prompt", request.prompt);
  put_if(json, "max_output_tokens", request.max_output_tokens);
  json["sampling"] = to_json(request.sampling);
  json["stop"] = request.stop;
  json["logprobs"] = request.logprobs;
  json["top_logprobs"] = request.top_logprobs;
  json["include_reasoning_logprobs"] = request.include_reasoning_logprobs;
  put_if(json, "reasoning_effort", request.reasoning_effort);
  put_if(json, "enable_thinking", request.enable_thinking);
  json["template_kwargs"] = request.template_kwargs;
  json["stream"] = request.stream;
  return json;
}

Result<TextRequest> text_request_from(const Json& json) {
  EXO_TRY(check_object(json, "request"));
  TextRequest request;
  EXO_TRY(need_field(json, "model", request.model.value));
  EXO_TRY(read_list(json, "messages", request.messages, message_from));
  EXO_TRY(read_field(json, "prompt", request.prompt));
  EXO_TRY(read_field(json, "max_output_tokens", request.max_output_tokens));
  if (const auto found = json.find("sampling"); found != json.end()) {
    EXO_TRY(request.sampling, sampling_from(*found));
  }
  EXO_TRY(read_list(json, "stop", request.stop, stop_from));
  EXO_TRY(read_field(json, "logprobs", request.logprobs));
  EXO_TRY(read_field(json, "top_logprobs", request.top_logprobs));
  EXO_TRY(read_field(json, "include_reasoning_logprobs", request.include_reasoning_logprobs));
  EXO_TRY(read_field(json, "reasoning_effort", request.reasoning_effort));
  EXO_TRY(read_field(json, "enable_thinking", request.enable_thinking));
  EXO_TRY(read_field(json, "template_kwargs", request.template_kwargs));
  EXO_TRY(read_field(json, "stream", request.stream));
  return request;
}

}  // namespace exo::protocol
