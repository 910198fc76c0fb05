// Saves the tensors of a checkpoint to files that open_checkpoint() reads back.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "models/checkpoint.h"

namespace exo::models {

struct NamedVector {
  std::string name;  // of the tensor, with ".weight" or ".bias"
  std::vector<float> values;
};

// What is saved. The matrices must be of one format, and their row_map empty.
struct CheckpointContent {
  Json config = {};
  std::vector<MatrixView> matrices = {};
  std::vector<NamedVector> vectors = {};
  std::vector<float> rope_divisors = {};  // for GGUF, which has no other name for Llama 3's scaling
};

// Into a new or empty directory: config.json and model.safetensors in MLX layout (vectors as f32),
// or model.gguf if the format is one of GGUF's block types. No tokenizer is written. Errors:
// kAlreadyExists: the directory is not empty; kUnsupported: the architecture has no GGUF form;
// kNoSpace, kIo, kPermission. A failure leaves no file that looks whole.
Result<void> write_checkpoint(const std::filesystem::path& directory,
                              const CheckpointContent& content);

}  // namespace exo::models
