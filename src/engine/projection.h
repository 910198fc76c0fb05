// Linear modules that read the same input, multiplied together: q, k and v; gate and up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "engine/decoder_spec.h"
#include "engine/weight_loader.h"
#include "kernels/multiply.h"

namespace exo::engine {

// Where the result of one module goes: f32[count, rows], rows `stride` floats apart.
struct Output {
  float* y = nullptr;
  std::size_t stride = 0;
};

// f32[count, width], rows `stride` floats apart.
struct Rows {
  const float* x = nullptr;
  std::size_t count = 0, width = 0, stride = 0;
};

class Projection {
 public:
  static constexpr std::size_t kMaxModules = 4;

  Projection() = default;
  // One stacked matrix where the encodings agree, else one for each module. Errors: as
  // WeightLoader::matrix().
  static Result<Projection> load(WeightLoader& loader, std::span<const LinearSpec> modules);

  // outputs[i] = x·Wᵢᵀ + biasᵢ in one parallel region, or one per encoding where they differ.
  // `activations` is scratch space.
  void multiply(const Rows& x, std::span<const Output> outputs, kernels::Precision precision,
                kernels::Activations& activations, kernels::ThreadPool& pool) const;

  std::size_t bytes() const;

 private:
  std::vector<kernels::Matrix> matrices_;   // one with all modules as parts, or one per module
  std::vector<std::vector<float>> biases_;  // per module; empty: none
};

// y[i] += bias for each row; an empty bias adds nothing.
void add_bias(const std::vector<float>& bias, const Output& rows, std::size_t count,
              kernels::ThreadPool& pool);

}  // namespace exo::engine
