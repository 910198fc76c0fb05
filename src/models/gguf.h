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
#include "models/mapped_file.h"

namespace exo::models {

struct GgufType {
  std::uint32_t number = 0;
  const char* name = "";
  std::size_t block = 1, bytes = 0;  // elements and bytes of a block
};
// The type of a number of gguf.md 2.1; nullptr for a removed or unknown one.
const GgufType* gguf_type(std::uint32_t number);

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
