// The safetensors container and the directory around it (MLX and Hugging Face layout). Source:
// models.md 1.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "models/checkpoint.h"
#include "models/mapped_file.h"

namespace exo::models {

struct SafetensorsTensor {
  std::string dtype;  // as in the header: "F32", "BF16", "U32", "F8_E4M3", …
  std::vector<std::size_t> shape;
  std::span<const std::byte> data;
};

struct SafetensorsFile {
  MappedFile file;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors;

  // Errors: kInvalidInput: a header that is too long, no JSON or wrong in itself, tensors that
  // overlap or lie outside.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
};

// The checkpoint behind a directory with config.json and model*.safetensors. Errors: kNotFound,
// kInvalidInput: what is missing or damaged; kUnsupported: a quantisation mode or custom code, by
// name.
Result<std::unique_ptr<Checkpoint>> open_safetensors(const std::filesystem::path& directory);

}  // namespace exo::models
