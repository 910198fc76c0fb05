// A model's files, opened and checked, answering in Hugging Face names and shapes whatever the
// container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "models/tokenizer_source.h"

namespace exo::models {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};
std::string_view name(DType type);
std::size_t size_of(DType type);

// How the rows of a weight matrix are stored.
struct WeightFormat {
  enum class Kind : std::uint8_t {
    kDense,
    kMlxAffine,
    kMlxMxfp4,
    kMlxMxfp8,
    kMlxNvfp4,
    kFloat8Squares,  // E4M3 with an f32 scale per square of 128 × 128 weights
    kQ4_0,           // from here on GGUF's block types
    kQ4_1,
    kQ5_0,
    kQ5_1,
    kQ8_0,
    kQ2K,
    kQ3K,
    kQ4K,
    kQ5K,
    kQ6K,
    kIq4Nl,
    kIq4Xs,
    kMxfp4,
    kNvfp4,
  };
  Kind kind = Kind::kDense;
  DType type = DType::kF32;      // of the numbers (dense) or of scales and biases (affine)
  std::uint8_t bits = 0;         // kMlxAffine
  std::uint16_t group_size = 0;  // kMlxAffine; the other kinds have their own

  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};
std::string to_string(const WeightFormat& format);  // "bf16", "affine 4 bit, group 64", "Q4_1"

// A weight matrix [rows, cols] in mapped memory (addresses may be unaligned); valid while its
// checkpoint lives.
struct MatrixView {
  std::string name;  // the module, as in "model.layers.0.mlp.down_proj"
  WeightFormat format;
  std::size_t rows = 0, cols = 0;
  std::span<const std::byte> codes;  // numbers, bit streams or blocks, row by row
  // MLX: [rows, cols / group_size]; squares: f32[⌈rows/128⌉, ⌈cols/128⌉]
  std::span<const std::byte> scales = {};
  std::span<const std::byte> biases = {};
  std::vector<std::uint32_t> row_map =
      {};  // Hugging Face row r is row row_map[r] of the file; empty: the same
};

struct TensorInfo {
  std::string name;  // the container's own name
  std::string format;
  std::vector<std::size_t> shape;  // row-major
  std::size_t bytes = 0;
};

// Two containers stand behind it: safetensors directories and GGUF files. Immutable and thread-safe
// once open.
class Checkpoint : public TokenizerSource {
 public:
  // config.json's content, or the same made from GGUF metadata. Llama 3 scaling of a GGUF file is
  // {"rope_type": "frequency_divisors", "divisors": […]} in rope_scaling.
  virtual const Json& config() const = 0;
  // The effective end-of-sequence ids, models.md 5.9 (the override by model id is the caller's) and
  // gguf.md 5.7.
  virtual const std::vector<std::uint32_t>& eos_token_ids() const = 0;

  virtual bool has(std::string_view tensor) const = 0;
  // Module `name` (without ".weight") as a matrix of [rows, cols]. Errors: kNotFound: the tensor is
  // missing; kInvalidInput: shape or dtype disagree; kUnsupported: an encoding that cannot be read
  // yet, by name. `subject` is the tensor.
  virtual Result<MatrixView> matrix(std::string_view name, std::size_t rows,
                                    std::size_t cols) const = 0;
  // Tensor `name` (with ".weight" or ".bias") as f32[size]. Errors: as matrix().
  virtual Result<std::vector<float>> vector(std::string_view name, std::size_t size) const = 0;

  // Everything in the files, for listings and to find what nobody asked for.
  virtual std::vector<TensorInfo> tensors() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  // The pages of these bytes (of a MatrixView of this checkpoint) are not needed again.
  virtual void drop(std::span<const std::byte> part) const = 0;
};

// Opens a directory in MLX or Hugging Face layout, a directory that holds one GGUF model, or a
// .gguf file (any shard of a split one). Every header, offset, size and metadata count is checked;
// no tensor data is read. Errors: kNotFound: no such path; kInvalidInput: not a model, or a damaged
// one; kUnsupported: a container version, architecture or mode by name.
Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& path);

}  // namespace exo::models
