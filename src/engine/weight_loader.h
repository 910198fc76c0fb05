// A checkpoint's tensors into memory: matrices as tiles, vectors as f32, mapped pages let go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine/decoder_spec.h"
#include "kernels/matrix.h"
#include "kernels/pack.h"
#include "kernels/thread_pool.h"
#include "models/checkpoint.h"

namespace exo::engine {

// A module's weights in the checkpoint's memory, whole, and the part of them that is wanted.
struct ModuleView {
  models::MatrixView whole;
  LinearSpec part;
};

class WeightLoader {
 public:
  using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

  // Borrows all three while it lives. `progress` (may be empty) hears of every hundredth of the
  // bytes.
  WeightLoader(const models::Checkpoint& checkpoint, kernels::ThreadPool& pool,
               const Progress& progress);

  // The weights of one module, or of several that share their input. Errors: as
  // Checkpoint::matrix(); kInvalidInput: NaN or infinity; kNoSpace. `subject` is the tensor.
  Result<kernels::Matrix> matrix(const LinearSpec& module);
  Result<kernels::Matrix> matrix(std::span<const ModuleView> views,
                                 kernels::Arrangement arrangement);
  Result<ModuleView> view(const LinearSpec& module) const;

  // A vector of finite numbers. Errors: as Checkpoint::vector(); kInvalidInput: NaN or infinity.
  Result<std::vector<float>> vector(const std::string& name, std::size_t size);
  // The additive bias of a module; empty if its spec has none.
  Result<std::vector<float>> bias(const LinearSpec& module);

  void finish();  // reports that everything is there

 private:
  Error blame(std::span<const ModuleView> views, Error error);
  void count(std::size_t bytes);

  const models::Checkpoint& checkpoint_;
  kernels::ThreadPool& pool_;
  const Progress& progress_;
  std::uint64_t total_ = 0, done_ = 0, reported_ = 0;
};

// The tiles' encoding that holds numbers of `format` without loss. Errors: kUnsupported.
Result<kernels::Encoding> tile_encoding(const models::WeightFormat& format);

}  // namespace exo::engine
