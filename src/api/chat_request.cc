#include "api/chat_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "api/chat_messages.h"
#include "api/fields.h"
#include "core/log.h"

namespace exo::api {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// Every field of api.md 5.1, those without effect included; others are noted once.
constexpr std::array<std::string_view, 42> kKnown = {"model",
                                                     "messages",
                                                     "stream",
                                                     "stream_options",
                                                     "max_completion_tokens",
                                                     "max_tokens",
                                                     "temperature",
                                                     "top_p",
                                                     "top_k",
                                                     "min_p",
                                                     "presence_penalty",
                                                     "frequency_penalty",
                                                     "repetition_penalty",
                                                     "repetition_context_size",
                                                     "stop",
                                                     "seed",
                                                     "logprobs",
                                                     "top_logprobs",
                                                     "logit_bias",
                                                     "n",
                                                     "tools",
                                                     "tool_choice",
                                                     "parallel_tool_calls",
                                                     "functions",
                                                     "function_call",
                                                     "response_format",
                                                     "reasoning_effort",
                                                     "reasoning",
                                                     "chat_template_kwargs",
                                                     "enable_thinking",
                                                     "include_reasoning_logprobs",
                                                     "user",
                                                     "metadata",
                                                     "store",
                                                     "service_tier",
                                                     "safety_identifier",
                                                     "prompt_cache_key",
                                                     "prediction",
                                                     "verbosity",
                                                     "modalities",
                                                     "audio",
                                                     "stream_obfuscation"};

void note_unknown(const Json& body) {
  static thread_local std::set<std::string> noted;
  constexpr std::size_t kMost = 256;
  for (const auto& [field, value] : body.items()) {
    if (std::ranges::find(kKnown, field) == kKnown.end() && noted.size() < kMost &&
        noted.insert(field).second) {
      log::debug("unknown field {} in a chat request is ignored", field);
    }
  }
}

std::unexpected<Error> not_yet(std::string_view field, std::string_view what) {
  return fail(ErrorCode::kUnsupported, fmt::format("'{}': {} not available yet", field, what),
              std::string(field));
}

// Fields that ask for what later work brings.
Result<void> refuse_unavailable(const Fields& fields) {
  for (const char* field : {"tools", "functions"}) {
    const Json* value = fields.find(field);
    if (value == nullptr) continue;
    if (!value->is_array()) return fields.bad(field, "must be a list");
    if (!value->empty()) return not_yet(field, "tools are");
  }
  for (const char* field : {"tool_choice", "function_call"}) {
    const Json* value = fields.find(field);
    if (value != nullptr && *value != "none" && *value != "auto")
      return not_yet(field, "forced tool calls are");
  }
  EXO_TRY(fields.boolean("parallel_tool_calls"));
  if (const Json* format = fields.find("response_format")) {
    if (!format->is_object() || !format->value("type", Json()).is_string())
      return fields.bad("response_format", "must be an object with a type");
    if ((*format)["type"] != "text") return not_yet("response_format", "structured output is");
  }
  EXO_TRY(const auto n, fields.integer("n", {1, 16}));
  if (n.value_or(1) != 1) return not_yet("n", "more than one choice is");
  if (fields.find("audio") != nullptr) return not_yet("audio", "audio is");
  if (const Json* modalities = fields.find("modalities")) {
    if (!modalities->is_array()) return fields.bad("modalities", "must be a list");
    for (const Json& item : *modalities) {
      if (item != "text") return not_yet("modalities", "other output than text is");
    }
  }
  return {};
}

Result<void> read_sampling(const Fields& fields, protocol::SamplingParameters& sampling) {
  EXO_TRY(sampling.temperature, fields.number("temperature", {0, 2}));
  EXO_TRY(sampling.top_p, fields.number("top_p", {0, 1}));
  EXO_TRY(sampling.min_p, fields.number("min_p", {0, 1}));
  EXO_TRY(sampling.top_k, fields.integer("top_k", {-1, kAny}));
  if (sampling.top_k == -1) sampling.top_k = 0;
  EXO_TRY(sampling.presence_penalty, fields.number("presence_penalty", {-2, 2}));
  EXO_TRY(sampling.frequency_penalty, fields.number("frequency_penalty", {-2, 2}));
  EXO_TRY(sampling.repetition_penalty, fields.number("repetition_penalty", {1e-6, 1e6}));
  EXO_TRY(sampling.repetition_context_size, fields.integer("repetition_context_size", {0, kAny}));
  EXO_TRY(sampling.seed, fields.integer("seed", {std::numeric_limits<std::int64_t>::min(), kAny}));
  return {};
}

Result<void> read_logit_bias(const Fields& fields, protocol::SamplingParameters& sampling) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object()) return fields.bad("logit_bias", "must be an object of token ids");
  for (const auto& [text, value] : bias->items()) {
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    const bool in_range =
        value.is_number() && value.get<double>() >= -100 && value.get<double>() <= 100;
    if (error != std::errc() || end != text.data() + text.size() || !in_range) {
      return fields.bad("logit_bias", "must map token ids to numbers from -100 to 100");
    }
    sampling.logit_bias[id] = value.get<double>();
  }
  return {};
}

Result<std::vector<std::string>> read_stop(const Fields& fields) {
  std::vector<std::string> stops;
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return stops;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  for (const Json& item : list) {
    if (!item.is_string()) return fields.bad("stop", "must be a string or a list of strings");
    if (!item.get_ref<const std::string&>().empty()) stops.push_back(item.get<std::string>());
  }
  return stops;
}

Result<void> read_logprobs(const Fields& fields, protocol::TextRequest& request) {
  EXO_TRY(const auto logprobs, fields.boolean("logprobs"));
  EXO_TRY(const auto top, fields.integer("top_logprobs", {0, 20}));
  EXO_TRY(const auto reasoning, fields.boolean("include_reasoning_logprobs"));
  request.logprobs = logprobs.value_or(false);
  request.top_logprobs = top.value_or(0);
  request.include_reasoning_logprobs = reasoning.value_or(false);
  if (top && !request.logprobs) return fields.bad("top_logprobs", "needs 'logprobs': true");
  return {};
}

Result<void> read_effort(const Fields& fields, const char* field, protocol::TextRequest& request) {
  constexpr std::array kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  EXO_TRY(const auto effort, fields.text(field));
  if (!effort) return {};
  if (std::ranges::find(kEfforts, *effort) == kEfforts.end()) {
    return fields.bad(field, "must be none, minimal, low, medium, high, xhigh or max");
  }
  request.reasoning_effort = effort;
  return {};
}

// api.md 3.1: one of effort and switch follows from the other.
Result<void> read_reasoning(const Fields& fields, protocol::TextRequest& request) {
  if (const Json* reasoning = fields.find("reasoning")) {
    if (!reasoning->is_object()) return fields.bad("reasoning", "must be an object");
    const Fields inner(*reasoning, "reasoning");
    EXO_TRY(read_effort(inner, "effort", request));
    EXO_TRY(request.enable_thinking, inner.boolean("enabled"));
  }
  if (const Json* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) return fields.bad("chat_template_kwargs", "must be an object");
    const Fields inner(*kwargs, "chat_template_kwargs");
    EXO_TRY(const auto thinking, inner.boolean("enable_thinking"));
    if (thinking) request.enable_thinking = thinking;
    request.template_kwargs = dump_json(*kwargs);
  }
  EXO_TRY(read_effort(fields, "reasoning_effort", request));
  EXO_TRY(const auto enable, fields.boolean("enable_thinking"));
  if (enable) request.enable_thinking = enable;
  if (request.enable_thinking && !request.reasoning_effort)
    request.reasoning_effort = *request.enable_thinking ? "medium" : "none";
  if (request.reasoning_effort && !request.enable_thinking)
    request.enable_thinking = *request.reasoning_effort != "none";
  return {};
}

Result<void> read_limits(const Fields& fields, protocol::TextRequest& request) {
  EXO_TRY(const auto old_limit, fields.integer("max_tokens", {1, kAny}));
  EXO_TRY(request.max_output_tokens, fields.integer("max_completion_tokens", {1, kAny}));
  if (!request.max_output_tokens) request.max_output_tokens = old_limit;
  return {};
}

}  // namespace

Result<ChatRequest> parse_chat_request(const Json& body) {
  if (!body.is_object())
    return fail(ErrorCode::kInvalidInput, "the request's body must be a JSON object");
  note_unknown(body);
  const Fields fields(body, "");
  ChatRequest chat;
  protocol::TextRequest& request = chat.request;
  EXO_TRY(const auto model, fields.text("model"));
  if (!model || model->empty()) return fields.bad("model", "is required");
  if (model->contains('\0')) return fields.bad("model", "must not contain NUL");
  request.model = ModelId{*model};
  EXO_TRY(refuse_unavailable(fields));
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    return fields.bad("messages", "must be a list that is not empty");
  EXO_TRY(request.messages, parse_messages(*messages));
  EXO_TRY(const auto stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  if (const Json* options = fields.find("stream_options")) {
    if (!options->is_object()) return fields.bad("stream_options", "must be an object");
    EXO_TRY(const auto usage, Fields(*options, "stream_options").boolean("include_usage"));
    chat.include_usage = usage.value_or(false);
  }
  EXO_TRY(read_limits(fields, request));
  EXO_TRY(read_sampling(fields, request.sampling));
  EXO_TRY(read_logit_bias(fields, request.sampling));
  EXO_TRY(request.stop, read_stop(fields));
  EXO_TRY(read_logprobs(fields, request));
  EXO_TRY(read_reasoning(fields, request));
  return chat;
}

}  // namespace exo::api
