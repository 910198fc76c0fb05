// Writes a GGUF file: the inverse of gguf_config and gguf_checkpoint. Source: gguf.md 1, 3, 4.
#pragma once

#include <filesystem>

#include "core/result.h"
#include "models/checkpoint_writer.h"

namespace exo::models {

// Errors: kUnsupported: no GGUF architecture for the configuration's model_type; kInvalidInput: a
// size that the configuration lacks, a tensor that GGUF has no name for; kAlreadyExists, kNoSpace,
// kIo, kPermission.
Result<void> write_gguf(const std::filesystem::path& file, const CheckpointContent& content);

}  // namespace exo::models
