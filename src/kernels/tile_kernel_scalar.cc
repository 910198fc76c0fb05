// The reference: integer dots are exact, everything else is summed in f64.
#include "kernels/tile_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/tile_reader.h"

namespace exo::kernels::scalar {
namespace {

void dense(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t out_stride) {
  const TileReader reader(tile.data, *tile.layout, *tile.encoding);
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t lane = 0; lane < tile.layout->tile_rows; ++lane) {
      double sum = 0;
      for (std::size_t col = 0; col < tile.layout->padded_cols; ++col)
        sum += double{reader.number(lane, col)} * double{x.x[m * x.col_stride + col]};
      out[m * out_stride + lane] = static_cast<float>(sum);
    }
  }
}

// Σ value·x over one weight group, and Σ x, both already scaled as activations are.
struct GroupDot {
  double dot = 0, sum = 0;
};

GroupDot group_dot(const TileReader& reader, const ActivationView& x, bool fast, std::size_t m,
                   std::size_t lane, std::size_t begin, std::size_t end) {
  GroupDot result;
  for (std::size_t col = begin; col < end; ++col) {
    const double value = fast ? static_cast<double>(x.q[m * x.col_stride + col]) *
                                    double{x.scale[m * x.group_stride + col / x.group_size]}
                              : double{x.x[m * x.col_stride + col]};
    result.dot += double{reader.value(lane, col)} * value;
    result.sum += value;
  }
  return result;
}

template <bool kFast>
void grouped(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
             std::size_t out_stride) {
  const Encoding& encoding = *tile.encoding;
  const TileReader reader(tile.data, *tile.layout, encoding);
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t lane = 0; lane < tile.layout->tile_rows; ++lane) {
      double sum = 0;
      for (std::size_t group = 0; group < tile.layout->groups; ++group) {
        const std::size_t begin = group * encoding.group_size;
        const GroupDot part =
            group_dot(reader, x, kFast, m, lane, begin, begin + encoding.group_size);
        const GroupScale scale = reader.scale(lane, group);
        sum += double{scale.scale} * part.dot + double{scale.bias} * part.sum;
      }
      out[m * out_stride + lane] = static_cast<float>(sum);
    }
  }
}

}  // namespace

TileKernel* tile_kernel(const Encoding& encoding, bool fast) {
  if (encoding.kind == Encoding::Kind::kDense) return dense;
  return fast && has_integer_codes(encoding) ? grouped<true> : grouped<false>;
}

void quantize_row(const float* x, std::size_t n, std::size_t padded, std::size_t group,
                  const QuantizedRow& out) {
  for (std::size_t begin = 0, g = 0; begin < padded; begin += group, ++g) {
    const std::size_t end = std::min(n, begin + group);
    std::uint32_t max_bits = 0;  // of |x|: ordered as the numbers are, NaN and infinity on top
    for (std::size_t i = begin; i < end; ++i)
      max_bits = std::max(max_bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
    const auto max = std::bit_cast<float>(max_bits);
    // Below 1e-30 a reciprocal would overflow, and the group is nothing but rounding error.
    const bool usable = max_bits < 0x7f800000U && max > 1e-30F;
    const float inverse = usable ? 127.0F / max : 0.0F;
    std::int32_t sum = 0;
    for (std::size_t i = begin; i < begin + group; ++i) {
      out.q[i] = usable && i < end ? static_cast<std::int8_t>(std::nearbyint(x[i] * inverse))
                                   : std::int8_t{0};
      sum += out.q[i];
    }
    const float scale = max_bits >= 0x7f800000U ? std::numeric_limits<float>::quiet_NaN()
                        : usable                ? max / 127.0F
                                                : 0.0F;
    out.scale[g] = scale;
    out.code_sum[g] = sum;
    out.sum[g] = scale * static_cast<float>(sum);
  }
}

}  // namespace exo::kernels::scalar
