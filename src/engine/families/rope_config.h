// Rotary embedding out of a config.json: rope_theta, rope_traditional, rope_scaling. Source:
// models.md 2.3; `frequency_divisors` is what the GGUF reader makes of rope_freqs.weight.
#pragma once

#include <cstddef>

#include "core/json.h"
#include "core/result.h"
#include "engine/decoder_spec.h"

namespace exo::engine::families {

// `rotated`: dimensions of a head that rotate. Errors: kUnsupported: a kind of scaling, by name;
// kInvalidInput.
Result<RopeSpec> read_rope(const Json& config, std::size_t rotated, double default_theta);

}  // namespace exo::engine::families
