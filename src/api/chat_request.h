// POST /v1/chat/completions: OpenAI's body → the canonical request. Source: api.md 4.2, 5.1.
#pragma once

#include "core/json.h"
#include "core/result.h"
#include "protocol/request.h"

namespace exo::api {

struct ChatRequest {
  protocol::TextRequest request = {};  // `model` as the client named it
  bool include_usage = false;
};

// Errors: kInvalidInput and kUnsupported; `subject` is the field, which OpenAI calls `param`.
Result<ChatRequest> parse_chat_request(const Json& body);

}  // namespace exo::api
