// The messages of a chat request → canonical messages. Source: api.md 4.2.
#pragma once

#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "protocol/request.h"

namespace exo::api {

// Errors: kInvalidInput, kUnsupported; `subject` is dotted ("messages.2.content.0.type").
Result<std::vector<protocol::Message>> parse_messages(const Json& list);

}  // namespace exo::api
