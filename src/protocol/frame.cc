// Frames over a byte stream.
#include "protocol/frame.h"

#include <cstdint>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/cbor.h"

namespace exo::protocol {
namespace {

std::unexpected<Error> too_long(std::size_t size) {
  return fail(ErrorCode::kInvalidInput,
              fmt::format("a frame of {} bytes is longer than the {} bytes that are allowed", size,
                          kMaxFrameBytes));
}

}  // namespace

Result<std::vector<std::byte>> encode_frame(const Json& message) {
  const std::vector<std::byte> body = to_cbor(message);
  if (body.size() > kMaxFrameBytes) return too_long(body.size());
  std::vector<std::byte> frame(sizeof(std::uint32_t) + body.size());
  store(frame.data(), static_cast<std::uint32_t>(body.size()));
  std::copy(body.begin(), body.end(), frame.begin() + sizeof(std::uint32_t));
  return frame;
}

void FrameReader::append(std::span<const std::byte> bytes) {
  if (failed_) return;  // nothing of a broken stream is kept
  if (begin_ > 0 && begin_ >= buffer_.size() / 2) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Json>> FrameReader::next() {
  if (failed_) return fail(ErrorCode::kInvalidInput, "the stream of frames is broken");
  const std::span<const std::byte> rest = std::span(buffer_).subspan(begin_);
  const auto size = read_at<std::uint32_t>(rest, 0);
  if (!size) return std::nullopt;
  if (*size > kMaxFrameBytes) {
    failed_ = true;
    return too_long(*size);
  }
  if (rest.size() - sizeof(std::uint32_t) < *size) return std::nullopt;
  Result<Json> message = from_cbor(rest.subspan(sizeof(std::uint32_t), *size));
  if (!message) {
    failed_ = true;
    return std::unexpected(std::move(message).error());
  }
  begin_ += sizeof(std::uint32_t) + *size;
  return std::optional<Json>(*std::move(message));
}

}  // namespace exo::protocol
