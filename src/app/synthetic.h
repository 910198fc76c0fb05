// Models of exo bench that exist as a configuration only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "core/result.h"
#include "models/checkpoint.h"

namespace exo::app {

struct SyntheticOptions {
  std::filesystem::path config = {};  // a config.json
  std::size_t layers = 0;             // instead of the configuration's; 0: those
  std::string quantization = "affine-4-64";
};

// Errors: as read_file() and models::weight_format_from(); kInvalidInput: no JSON object.
Result<std::unique_ptr<models::Checkpoint>> make_synthetic(const SyntheticOptions& options);

// Saves a synthetic checkpoint. Errors: as engine::footprint() and models::write_checkpoint().
Result<void> write_synthetic(const models::Checkpoint& checkpoint,
                             const std::filesystem::path& directory);

}  // namespace exo::app
