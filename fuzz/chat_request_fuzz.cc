// The body of a chat request, and the way of what it asks to the runner and back.
#include <nlohmann/json.hpp>

#include "api/chat_request.h"
#include "core/check.h"
#include "core/json.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = exo::parse_json(exo::fuzz::text_of(data, size));
  if (!body) return 0;
  const auto chat = exo::api::parse_chat_request(*body);
  if (!chat) return 0;
  // What the node accepts the runner must understand.
  const auto again = exo::protocol::text_request_from(exo::protocol::to_json(chat->request));
  EXO_CHECK(again && *again == chat->request);
  return 0;
}
