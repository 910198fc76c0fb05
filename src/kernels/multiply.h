// Matrix × vector(s) on tiles: y = x·Wᵀ, for one row of activations (decode) and for many (prefill,
// batches).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/matrix.h"
#include "kernels/thread_pool.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {

enum class Precision : std::uint8_t {
  kFast,   // activations quantised to int8 per group, integer dot products
  kExact,  // activations in f32, f32 accumulation
};

// Activations prepared for products with matrices of one input width: kept by the caller and
// reused, so that nothing is allocated per token. Prepared for one encoding's group size; prepare
// again for another.
class Activations {
 public:
  Activations();
  Activations(Activations&&) noexcept;
  Activations& operator=(Activations&&) noexcept;
  ~Activations();

  struct State;
  State& state();  // made on first use
  const State& state() const;

 private:
  std::unique_ptr<State> state_;
};

// Prepares `x` (f32[count, cols], rows `stride` floats apart) for products with matrices of
// `encoding`. Rows are spread over `pool`. A NaN or infinity in x makes the products NaN; it never
// crashes.
void prepare(Activations& activations, const float* x, std::size_t count, std::size_t cols,
             std::size_t stride, const Encoding& encoding, Precision precision, ThreadPool& pool);

// Whether activations prepared for one encoding serve the other.
bool same_preparation(const Encoding& a, const Encoding& b, Precision precision);

// One product out of several that share their activations and a parallel region. `part` p of the
// matrix (its sources, in order) goes to y[p]: f32[count, part_rows[p]], rows `stride[p]` floats
// apart.
struct Product {
  const Matrix* matrix = nullptr;
  std::span<float* const> y;
  std::span<const std::size_t> stride;
};
void multiply(std::span<const Product> products, const Activations& x, ThreadPool& pool);

// One matrix of one part.
void multiply(const Matrix& matrix, const Activations& x, float* y, std::size_t stride,
              ThreadPool& pool);

// y += x·Wᵀ: the residual addition of an output projection.
void multiply_add(const Matrix& matrix, const Activations& x, float* y, std::size_t stride,
                  ThreadPool& pool);

// y = activation(x·Gᵀ) ∘ (x·Uᵀ) of an interleaved matrix: f32[count, rows of one source].
void multiply_gated(const Matrix& gate_up, Activation activation, const Activations& x, float* y,
                    std::size_t stride, ThreadPool& pool);

}  // namespace exo::kernels
