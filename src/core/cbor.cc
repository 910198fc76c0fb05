#include "core/cbor.h"

#include <fmt/format.h>

#include "core/json_sax.h"

namespace exo {

std::vector<std::byte> to_cbor(const Json& json) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

Result<Json> from_cbor(std::span<const std::byte> bytes, JsonLimits limits) {
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
