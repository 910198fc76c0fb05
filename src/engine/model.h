// A loaded model: weights in tiles, and the operations that a generation is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "kernels/encoding.h"
#include "kernels/multiply.h"
#include "kernels/thread_pool.h"
#include "models/checkpoint.h"

namespace exo::engine {

struct LoadOptions {
  kernels::Precision precision =
      kernels::Precision::kFast;  // kExact keeps activations, K and V in f32
  kernels::FloatType kv_type =
      kernels::FloatType::kBf16;  // of the cache in fast precision: bf16 or f16
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress =
      {};  // on any thread, bounded in rate
};

struct ModelInfo {
  std::size_t vocab_size = 0;
  std::size_t layers = 0;
  std::size_t context_length = 0;      // 0: unknown
  std::size_t weight_bytes = 0;        // tiles and other tensors in memory
  std::size_t bytes_per_token = 0;     // weight bytes that one decode step reads
  std::size_t kv_bytes_per_token = 0;  // cache bytes that one position takes
};

// The state of one sequence: its cache. Belongs to one model, used by one thread at a time.
class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual std::size_t length() const = 0;  // positions in the cache
  // Forgets positions from `length` on. Errors: kUnsupported: a cache that cannot be trimmed so
  // far.
  virtual Result<void> trim(std::size_t length) = 0;
  virtual std::size_t bytes() const = 0;
};

// Used by one thread at a time; the pool does the parallel work.
class Model {
 public:
  // Reads configuration and tensors, packs the matrices over `pool` (which must outlive the model)
  // and drops the mapped pages as they are consumed. `checkpoint` may go away afterwards. Errors:
  // kUnsupported: architecture or quantisation, by name; kNotFound: a missing tensor;
  // kInvalidInput: shapes that disagree with the configuration, NaN or infinity in scales;
  // kNoSpace.
  static Result<std::unique_ptr<Model>> load(const models::Checkpoint& checkpoint,
                                             kernels::ThreadPool& pool, const LoadOptions& options);
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual std::unique_ptr<Sequence> make_sequence() = 0;

  // Appends `ids` to the sequence without computing logits. Callers cut long prompts into chunks of
  // at most kPrefillChunk and look for cancellation between them. Errors: kInvalidInput: an id
  // beyond the vocabulary; kContextLength; kNoSpace: no memory for the cache; kInternal: the model
  // computed NaN or infinity; `subject` is the tensor. What a failed call got is not stored, except
  // for whole chunks before.
  virtual Result<void> prefill(Sequence& sequence, std::span<const std::uint32_t> ids) = 0;

  // Appends `ids` (at least one) and gives the last position's logits: f32[vocab_size], valid until
  // the next call. Errors: as prefill().
  virtual Result<std::span<float>> decode(Sequence& sequence,
                                          std::span<const std::uint32_t> ids) = 0;

  // Appends `ids` and gives every position's logits: f32[ids.size(), vocab_size]. For instruments
  // and tests. Errors: as prefill().
  virtual Result<std::vector<float>> logits(Sequence& sequence,
                                            std::span<const std::uint32_t> ids) = 0;
};

inline constexpr std::size_t kPrefillChunk = 512;

}  // namespace exo::engine
