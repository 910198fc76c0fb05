// The replies that exist as a whole before they are sent, all but a chat's.
#pragma once

#include <string>

#include "api/http_error.h"
#include "api/inference.h"
#include "api/router.h"
#include "core/json.h"

namespace exo::api {

struct Reply {
  int status = 200;
  std::string type = "application/json", body = {};
  Headers headers = {};
};

Reply json_reply(int status, const Json& body);
// With Retry-After where trying again may help.
Reply error_reply(const HttpError& error);

// Every route but kChatCompletions. `request_id` is for error bodies that name it.
Reply reply_to(const Routed& routed, Inference& inference, std::string_view request_id);

}  // namespace exo::api
