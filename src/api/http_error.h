// Errors as HTTP: status, and the body that OpenAI's clients read. Source: api.md 1.7, 1.8.
#pragma once

#include <string>

#include "core/json.h"
#include "core/result.h"

namespace exo::api {

struct HttpError {
  int status = 500;
  std::string type = "server_error", message = {};
  std::string param = {}, code = {};  // empty: null
};

HttpError http_error(const Error& error);
// {"error": {"message", "type", "param", "code"}}
Json error_body(const HttpError& error);

}  // namespace exo::api
