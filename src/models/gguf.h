// The GGUF container: header, tensors, split files; every check of gguf.md 1.5 made before a value
// is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "models/checkpoint.h"
#include "models/gguf_metadata.h"
#include "models/gguf_types.h"
#include "models/mapped_file.h"

namespace exo::models {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF"
inline constexpr std::uint64_t kGgufAlignment = 32;      // where the file does not say

struct GgufTensor {
  const GgufType* type = nullptr;
  std::vector<std::size_t> shape;  // row-major: GGUF's dimensions reversed
  std::span<const std::byte> data;
};

// One file of a model, which may be a shard.
struct GgufFile {
  MappedFile file;
  GgufMetadata metadata;
  std::map<std::string, GgufTensor, std::less<>> tensors;

  // Errors: kInvalidInput: not a GGUF file, damaged, or an incomplete download; kUnsupported:
  // version 1, big-endian.
  static Result<GgufFile> open(const std::filesystem::path& path);
};

// The checkpoint behind a GGUF file or all shards of a split one. Errors: those of GgufFile::open
// and of the configuration.
Result<std::unique_ptr<Checkpoint>> open_gguf(const std::filesystem::path& path);

// The one GGUF model of a directory: a file, or the first of a split one. Errors: kInvalidInput:
// none, or several.
Result<std::filesystem::path> gguf_in(const std::filesystem::path& directory);

}  // namespace exo::models
