#include "core/cbor.h"

#include <cstdint>
#include <fmt/format.h>

#include "core/json_sax.h"

namespace exo {
namespace {

// Whether a text or byte string comes in chunks. nlohmann recurses into chunks of chunks without
// limit; to_cbor() writes none. The heads of all items stand one after the other, whatever the
// nesting.
bool has_chunks(std::span<const std::byte> bytes) {
  constexpr unsigned kBytes = 2, kText = 3, kIndefinite = 31;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto head = std::to_integer<unsigned>(bytes[at++]);
    const unsigned major = head >> 5, info = head & 31;
    const bool is_string = major == kBytes || major == kText;
    if (is_string && info == kIndefinite) return true;
    std::uint64_t value = info;
    if (info >= 24 && info < 28) {
      const std::size_t length = std::size_t{1} << (info - 24);
      if (bytes.size() - at < length) return false;  // cut short, which the parser will say
      value = 0;
      for (std::size_t i = 0; i < length; ++i)
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
      at += length;
    }
    if (!is_string) continue;
    if (value > bytes.size() - at) return false;
    at += value;
  }
  return false;
}

}  // namespace

std::vector<std::byte> to_cbor(const Json& json) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

Result<Json> from_cbor(std::span<const std::byte> bytes, JsonLimits limits) {
  if (has_chunks(bytes))
    return fail(ErrorCode::kInvalidInput, "malformed CBOR: a string comes in chunks");
  Json root;
  BoundedBuilder builder(root, limits.max_depth);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  try {
    if (!Json::sax_parse(first, first + bytes.size(), &builder, Json::input_format_t::cbor)) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("CBOR is nested more than {} levels deep", limits.max_depth));
    }
  } catch (const Json::exception& error) {
    return fail(ErrorCode::kInvalidInput, fmt::format("malformed CBOR: {}", error.what()));
  }
  return root;
}

}  // namespace exo
