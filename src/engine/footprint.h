// What a model will take in memory, known before any of its weights is read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine/model.h"
#include "models/checkpoint.h"

namespace exo::engine {

// A matrix as the files hold it.
struct StoredMatrix {
  std::string name = {};
  models::WeightFormat format = {};
  std::size_t rows = 0, cols = 0;
  std::size_t bytes = 0;  // codes, scales and biases
};

struct StoredVector {
  std::string name = {};  // of the tensor
  std::size_t size = 0;
};

struct Footprint {
  ModelInfo model = {};           // as Model::load() would find it, with the active ISA
  std::size_t cache_bytes = 0;    // of one sequence that fills the context; 0: context unknown
  std::size_t parameters = 0;     // numbers that the model was trained to
  std::size_t layer_weights = 0;  // of the layers' matrices: multiply-adds per token of a prompt
  std::vector<StoredMatrix> matrices = {};
  std::vector<StoredVector> vectors = {};  // norms and biases
};

// Errors: as decoder_spec() and Checkpoint::matrix(): a tensor that is missing or cannot be read,
// by name.
Result<Footprint> footprint(const models::Checkpoint& checkpoint, const LoadOptions& options);

}  // namespace exo::engine
