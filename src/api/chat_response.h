// What a generation becomes on the wire of POST /v1/chat/completions. Source:
// api.md 5.2, 5.3, 1.9, 19.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/http_error.h"
#include "core/id.h"
#include "core/json.h"
#include "protocol/chunk.h"

namespace exo::api {

struct ChatHeader {
  CommandId command = {};
  std::string model = {};
  std::int64_t created = 0;  // unix seconds
  bool logprobs = false;
  bool include_usage = false;
};

// The events of a stream, as text ready to send.
class ChatStream {
 public:
  explicit ChatStream(ChatHeader header) : header_(std::move(header)) {}

  // The events of one chunk: the first one of the reply itself (not of its progress) after the role
  // chunk, the terminal one with everything up to [DONE].
  std::string events(const protocol::Chunk& chunk);
  static std::string keep_alive();

 private:
  std::string chunk(Json delta, Json logprobs, Json finish_reason) const;
  std::string role_chunk();
  std::string finish(const protocol::FinishChunk& chunk) const;

  ChatHeader header_;
  bool has_role_ = false;
};

// Collects chunks into the body of a reply that is not streamed.
class ChatReply {
 public:
  explicit ChatReply(ChatHeader header) : header_(std::move(header)) {}

  void add(const protocol::TokenChunk& chunk);
  Json body(const protocol::FinishChunk& end) const;

 private:
  ChatHeader header_;
  std::string content_, reasoning_;
  std::vector<protocol::TokenChunk::Entry> logprobs_;
};

}  // namespace exo::api
