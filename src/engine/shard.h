// A model over several ranks: which layers and which part of their width each has. Source:
// models.md 4, with the product's rules: any number of ranks, uneven parts, repeated key-value
// heads.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/result.h"
#include "engine/decoder_spec.h"
#include "models/checkpoint.h"

namespace exo::engine {

// Ranks that hold the same layers, each a part of their width.
struct Stage {
  std::size_t first_layer = 0, end_layer = 0;
  std::vector<std::size_t> ranks = {};

  friend bool operator==(const Stage&, const Stage&) = default;
};

// Every rank is in one stage; the stages' layers follow one another, rank 0 is the first rank of
// the first stage. One rank in one stage: the whole model.
struct Layout {
  std::vector<Stage> stages = {};

  friend bool operator==(const Layout&, const Layout&) = default;
};

// All layers on all of `ranks` ranks; one rank per stage, evenly.
Layout tensor_layout(std::size_t layers, std::size_t ranks);
Layout pipeline_layout(std::size_t layers, std::size_t ranks);

// Errors: kInvalidInput: layers or ranks that are missing, or there twice.
Result<void> check_layout(const Layout& layout, std::size_t layers);

// Columns of a matrix that can only be held together: those that share a scale.
std::size_t column_unit(const models::WeightFormat& format);

// What rank `rank` holds of the model. `unit` gives column_unit() of a module's weights. Errors:
// kUnsupported: a rank would be left without a head or a column: too many ranks in a stage.
Result<DecoderSpec> shard_of(const DecoderSpec& whole, const Layout& layout, std::size_t rank,
                             const std::function<Result<std::size_t>(const LinearSpec&)>& unit);

}  // namespace exo::engine
