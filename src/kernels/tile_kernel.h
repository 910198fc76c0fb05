// The kernels behind multiply(): one tile times several rows of activations. Internal to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/encoding.h"
#include "kernels/tile_layout.h"

namespace exo::kernels {

struct TileView {
  const std::byte* data;
  const TileLayout* layout;
  const Encoding* encoding;
};

// Prepared activations from one row on; the rows of each array are *_stride elements apart.
struct ActivationView {
  // fast: q = rint(x / scale) in [−127, 127], scale = max|x| / 127 per activation group, sum =
  // scale·Σq, code_sum = Σq
  const std::int8_t* q;
  const float* scale;
  const float* sum;
  const std::int32_t* code_sum;
  // exact, and dense weights: x padded with zeros, x_sum = Σx per weight group
  const float* x;
  const float* x_sum;
  std::size_t col_stride;    // of q and x
  std::size_t group_stride;  // of scale, sum, code_sum, x_sum
  std::size_t group_size;    // columns of an activation group
};

// out[m·out_stride + r] = Σ_c w[r, c]·x[m, c] for every row r of the tile and m in [0, count). Both
// forms add a group's part as
//   scale·dot + bias·sum, groups in order, so that a row's result does not depend on `count`.
// Tolerance: fast, the integer dot is exact and the f32 sum over G groups errs by ≤
// γ_{3G}·Σ|terms|; exact, γ_{cols+2G}·Σ|w·x|.
using TileKernel = void(const TileView& tile, const ActivationView& x, std::size_t count,
                        float* out, std::size_t out_stride);

// The kernel for an encoding; `fast` is ignored for dense. tile_rows: scalar any, avx2 8,
// avx512 16.
namespace scalar {
TileKernel* tile_kernel(const Encoding& encoding, bool fast);
}
namespace avx2 {
TileKernel* tile_kernel(const Encoding& encoding, bool fast);
}
namespace avx512 {
TileKernel* tile_kernel(const Encoding& encoding, bool fast);
}

// One row of activations, padded to a whole number of groups of `group` columns: q[padded], and per
// group scale, sum, code_sum. A group with a NaN or infinity gets the scale NaN and codes 0.
struct QuantizedRow {
  std::int8_t* q;
  float* scale;
  float* sum;
  std::int32_t* code_sum;
};
using QuantizeFn = void(const float* x, std::size_t n, std::size_t padded, std::size_t group,
                        const QuantizedRow& out);
namespace scalar {
QuantizeFn quantize_row;
}
namespace avx2 {
QuantizeFn quantize_row;
}
namespace avx512 {
QuantizeFn quantize_row;
}

}  // namespace exo::kernels
