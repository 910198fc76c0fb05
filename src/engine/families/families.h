// The registry of model families: model_type → the function that reads its configuration.
#pragma once

#include "core/json.h"
#include "core/result.h"
#include "engine/decoder_spec.h"

namespace exo::engine::families {

// Errors: as decoder_spec().
Result<DecoderSpec> describe(const Json& config);

// models.md 3.1.
Result<DecoderSpec> describe_llama(const Json& config);
// models.md 3.15.
Result<DecoderSpec> describe_gemma3(const Json& config);

}  // namespace exo::engine::families
