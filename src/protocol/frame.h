// Frames between the node and its runners: u32 little-endian length, then CBOR. Bounded, so that a
// bad peer costs no memory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace exo::protocol {

inline constexpr std::size_t kMaxFrameBytes = std::size_t{256}
                                              << 20;  // a request body of 100 MiB fits

// Errors: kInvalidInput: longer than kMaxFrameBytes.
Result<std::vector<std::byte>> encode_frame(const Json& message);

// Collects bytes of a stream and gives whole messages.
class FrameReader {
 public:
  void append(std::span<const std::byte> bytes);
  // The next message; nothing while it is incomplete. Errors: kInvalidInput: too long or malformed;
  // the stream is then unusable.
  Result<std::optional<Json>> next();

 private:
  std::vector<std::byte> buffer_;
  bool failed_ = false;
  std::size_t begin_ = 0;
};

}  // namespace exo::protocol
