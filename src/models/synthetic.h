// A checkpoint of random weights with the shapes of a published configuration, so that any model
// can be timed on a machine that could not hold it, or without its files.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"
#include "models/checkpoint.h"

namespace exo::models {

// "bf16", "affine-4-64", "mxfp4", "f8", "q4_k", … Errors: kInvalidInput: names those that exist.
Result<WeightFormat> weight_format_from(std::string_view name);
std::string weight_format_names();

// Every matrix that is asked for exists, in `format`, with weights of a mean near 0 and a standard
// deviation near 0.02; norms are 1 and biases 0; there is no head if the configuration ties it to
// the embedding. Matrices that differ in the number of their layer only are one in memory. It has
// no tokenizer.
std::unique_ptr<Checkpoint> make_synthetic(Json config, const WeightFormat& format);

}  // namespace exo::models
