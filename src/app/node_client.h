// A small HTTP client for a node's own API, for commands that talk to a running node.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace exo::app {

struct ChatOutcome {
  std::string text;           // all of the answer, also when it was stopped
  std::string finish_reason;  // "stop", "length", …; empty when stopped
  bool stopped = false;       // by the stop token
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
};

// Used by one thread at a time; each call makes its own connection.
class NodeClient {
 public:
  // `host`: an IP address without brackets. `api_key` may be empty.
  NodeClient(std::string host, std::uint16_t port, std::string api_key);

  // Errors: kUnavailable: nobody answers there; kIo: the connection broke off; kTimedOut; else what
  // the node's error body says.
  Result<Json> get(std::string_view path);

  // Sends a chat/completions body and hands over text as it comes. A stop closes the connection,
  // which ends the generation. Errors: as get(); an error frame in the stream is an error, too.
  Result<ChatOutcome> stream_chat(const Json& body,
                                  const std::function<void(std::string_view text)>& on_text,
                                  std::stop_token stop);

 private:
  std::string host_, api_key_;
  std::uint16_t port_;
};

// One event of a chat stream folded into `outcome`; the new text is returned. Errors: what an error
// frame says; kIo: an event that is none.
Result<std::string> apply_chat_event(ChatOutcome& outcome, std::string_view data);

// The error that a JSON error body (api.md 1.8) or any other text stands for.
Error error_from_body(unsigned status, std::string_view body);

}  // namespace exo::app
