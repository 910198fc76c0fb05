// The canonical request: what every API family's body becomes. Source: api.md 3.1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/id.h"
#include "core/json.h"
#include "core/result.h"

namespace exo::protocol {

struct ToolCall {
  std::string id = {}, name = {};
  std::string arguments = {};  // JSON text
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// A message as the chat template sees it, api.md 4.1.
struct Message {
  std::string role = {};  // system, user, assistant, tool
  std::string content = {};
  std::optional<std::string> reasoning_content = {};
  std::vector<ToolCall> tool_calls = {};
  std::optional<std::string> tool_call_id = {};
  std::optional<std::string> name = {};
  friend bool operator==(const Message&, const Message&) = default;
};

// An absent value means: the card's default, else the engine's (models.md 5.5).
struct SamplingParameters {
  std::optional<double> temperature = {}, top_p = {}, min_p = {};
  std::optional<std::int64_t> top_k = {};  // 0: off
  std::optional<double> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
  std::optional<std::int64_t> repetition_context_size = {};
  std::optional<std::int64_t> seed = {};
  std::map<std::uint32_t, double> logit_bias = {};
  friend bool operator==(const SamplingParameters&, const SamplingParameters&) = default;
};

struct TextRequest {
  ModelId model = {};  // resolved
  std::vector<Message> messages = {};
  std::optional<std::string> prompt =
      {};  // raw mode: bypasses the template; then `messages` is empty
  std::optional<std::int64_t> max_output_tokens = {};
  SamplingParameters sampling = {};
  std::vector<std::string> stop = {};  // no empty strings
  bool logprobs = false;
  std::int64_t top_logprobs = 0;
  bool include_reasoning_logprobs = false;
  std::optional<std::string> reasoning_effort = {};  // none, minimal, low, medium, high, xhigh, max
  std::optional<bool> enable_thinking = {};
  std::string template_kwargs =
      "{}";  // chat_template_kwargs: a JSON object as text, handed to the template
  bool stream = false;
  friend bool operator==(const TextRequest&, const TextRequest&) = default;
};

Json to_json(const TextRequest& request);
// Errors: kInvalidInput; `subject` is the field.
Result<TextRequest> text_request_from(const Json& json);

}  // namespace exo::protocol
