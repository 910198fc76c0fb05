// Errors as HTTP: status, and the body that OpenAI's clients read. Source: api.md 1.7, 1.8.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace exo::api {

struct HttpError {
  int status = 500;
  std::string type = "server_error", message = {};
  std::string param = {}, code = {};  // empty: null
};

HttpError http_error(const Error& error);
// Of Inference::resolve(): a name that may mean several models is as unknown as one that means none
// (api.md 1.13); the message tells them apart.
HttpError unknown_model(const Error& error);
// {"error": {"message", "type", "param", "code"}}
Json error_body(const HttpError& error);
// {"type": "error", "error": {"type", "message"}, "request_id"}, for Anthropic's clients.
Json claude_error_body(const HttpError& error, std::string_view request_id);

}  // namespace exo::api
