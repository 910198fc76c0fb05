// CBOR for frames between our own processes: Json in, Json out, bounded in depth.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace exo {

std::vector<std::byte> to_cbor(const Json& json);

// Errors: kInvalidInput for malformed or too deep data, and for bytes left over.
Result<Json> from_cbor(std::span<const std::byte> bytes, JsonLimits limits = {});

}  // namespace exo
