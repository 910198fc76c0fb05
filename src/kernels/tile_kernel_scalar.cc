// The reference: integer dots are exact, everything else is summed in f64.
#include "kernels/tile_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/bytes.h"
#include "kernels/vector_ops.h"

namespace exo::kernels::scalar {
namespace {

float number_at(const std::byte* data, FloatType type, std::size_t index) {
  switch (type) {
    case FloatType::kF32:
      return load<float>(data + 4 * index);
    case FloatType::kF16:
      return f16_to_float(load<std::uint16_t>(data + 2 * index));
    case FloatType::kBf16:
      return bf16_to_float(load<std::uint16_t>(data + 2 * index));
  }
  return 0;
}

int code_at(const std::byte* codes, std::size_t bits, std::size_t tile_rows, std::size_t lane,
            std::size_t col) {
  const std::size_t vector = 4 * tile_rows, quad = col % kBlockColumns / 4;
  const std::byte* plane = codes + col / kBlockColumns * vector * bits;
  const BitPlanes planes = bit_planes(bits);
  int code = 0;
  for (std::size_t p = 0, shift = 0; p < planes.count; ++p) {
    const std::size_t width = planes.bits[p], quads = 8 / width;
    const int byte = std::to_integer<int>(plane[quad / quads * vector + 4 * lane + col % 4]);
    code |= ((byte >> (quad % quads * width)) & ((1 << width) - 1)) << shift;
    shift += width;
    plane += vector * width;
  }
  return code;
}

void dense(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const FloatType type = tile.encoding->type;
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t lane = 0; lane < layout.tile_rows; ++lane) {
      double sum = 0;
      for (std::size_t col = 0; col < layout.padded_cols; ++col) {
        const std::size_t index = type == FloatType::kBf16
                                      ? (col / 2 * layout.tile_rows + lane) * 2 + col % 2
                                      : col * layout.tile_rows + lane;
        sum += double{number_at(tile.data, type, index)} * double{x.x[m * x.col_stride + col]};
      }
      out[m * out_stride + lane] = static_cast<float>(sum);
    }
  }
}

// Σ code·x over one weight group, and Σ x, both already scaled as activations are.
struct GroupDot {
  double dot = 0, sum = 0;
};

GroupDot group_dot(const TileView& tile, const ActivationView& x, bool fast, std::size_t m,
                   std::size_t lane, std::size_t group) {
  const Encoding& encoding = *tile.encoding;
  const std::byte* codes = tile.data + tile.layout->codes_at(group);
  const int zero = encoding.kind == Encoding::Kind::kSymmetric ? 1 << (encoding.bits - 1) : 0;
  GroupDot result;
  for (std::size_t c = 0; c < encoding.group_size; ++c) {
    const std::size_t col = group * encoding.group_size + c;
    const double value = fast ? static_cast<double>(x.q[m * x.col_stride + col]) *
                                    double{x.scale[m * x.group_stride + col / x.group_size]}
                              : double{x.x[m * x.col_stride + col]};
    result.dot += (code_at(codes, encoding.bits, tile.layout->tile_rows, lane, c) - zero) * value;
    result.sum += value;
  }
  return result;
}

template <bool kFast>
void grouped(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
             std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const Encoding& encoding = *tile.encoding;
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t lane = 0; lane < layout.tile_rows; ++lane) {
      double sum = 0;
      for (std::size_t group = 0; group < layout.groups; ++group) {
        const std::byte* header = tile.data + layout.header_at(group);
        const GroupDot part = group_dot(tile, x, kFast, m, lane, group);
        sum += double{number_at(header, encoding.type, lane)} * part.dot;
        if (encoding.kind == Encoding::Kind::kAffine) {
          sum += double{number_at(header, encoding.type, layout.tile_rows + lane)} * part.sum;
        }
      }
      out[m * out_stride + lane] = static_cast<float>(sum);
    }
  }
}

}  // namespace

TileKernel* tile_kernel(const Encoding& encoding, bool fast) {
  if (encoding.kind == Encoding::Kind::kDense) return dense;
  return fast ? grouped<true> : grouped<false>;
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
