// The reference for attention_parts.h, in f64: whole rows, no tiles.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_parts.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

double number_at(FloatType type, const std::byte* data, std::size_t index) {
  data += index * size_of(type);
  if (type == FloatType::kF32) {
    float value = 0;
    std::memcpy(&value, data, sizeof value);
    return double{value};
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof bits);
  return double{type == FloatType::kBf16 ? bf16_to_float(bits) : f16_to_float(bits)};
}

struct Stream {
  FloatType type;
  const std::byte* keys;
  const std::byte* values;
  std::size_t head_dim;

  // In units of log 2, an f32 as the partials hold it.
  double score(const float* q, std::size_t key, float scale) const {
    double sum = 0;
    for (std::size_t d = 0; d < head_dim; ++d) {
      sum += double{q[d]} * number_at(type, keys, key * head_dim + d);
    }
    return double{static_cast<float>(sum * double{scale} * 1.4426950408889634)};
  }
};

struct Row {
  double m = -std::numeric_limits<double>::infinity(), l = 0;
  double o[kMaxHeadDim] = {};
};

Row attend_row(const Stream& stream, const float* q, float scale, std::size_t begin,
               std::size_t end) {
  Row row;
  for (std::size_t key = begin; key < end; ++key) {
    row.m = std::max(row.m, stream.score(q, key, scale));
  }
  for (std::size_t key = begin; key < end; ++key) {
    const double p = std::exp2(stream.score(q, key, scale) - row.m);
    row.l += p;
    for (std::size_t d = 0; d < stream.head_dim; ++d) {
      row.o[d] += p * number_at(stream.type, stream.values, key * stream.head_dim + d);
    }
  }
  return row;
}

}  // namespace

void scalar::decode_block(const DecodeBlock& block) {
  const Stream stream{block.type, block.keys, block.values, block.head_dim};
  for (std::size_t head = 0; head < block.heads; ++head) {
    const Row row =
        attend_row(stream, block.q + head * block.head_dim, block.scale, 0, block.count);
    float* const partial = block.partials + head * block.partial_stride;
    partial[0] = static_cast<float>(row.m);
    partial[1] = static_cast<float>(row.l);
    for (std::size_t d = 0; d < block.head_dim; ++d) partial[2 + d] = static_cast<float>(row.o[d]);
  }
}

void scalar::prefill_tile(const PrefillTile& tile) {
  const Stream stream{tile.type, tile.keys, tile.values, tile.head_dim};
  for (std::size_t query = 0; query < tile.queries; ++query) {
    const std::size_t end = tile.first + query + 1;
    const std::size_t begin = tile.window > 0 && end > tile.window ? end - tile.window : 0;
    for (std::size_t head = 0; head < tile.heads; ++head) {
      const float* const q = tile.q + query * tile.q_stride + head * tile.head_dim;
      float* const out = tile.out + query * tile.out_stride + head * tile.head_dim;
      const Row row = attend_row(stream, q, tile.scale, begin, end);
      for (std::size_t d = 0; d < tile.head_dim; ++d) out[d] = static_cast<float>(row.o[d] / row.l);
    }
  }
}

}  // namespace exo::kernels
