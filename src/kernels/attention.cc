// How attention is split into work items: for few queries by blocks of keys, for many by queries.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "core/check.h"
#include "kernels/attention_parts.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

constexpr Variants<DecodeBlockFn> decode_block{
    .scalar = scalar::decode_block,
    EXO_X86(.avx2 = avx2::decode_block, .avx512 = avx512::decode_block)};
constexpr Variants<PrefillTileFn> prefill_tile{
    .scalar = scalar::prefill_tile,
    EXO_X86(.avx2 = avx2::prefill_tile, .avx512 = avx512::prefill_tile)};

// Fewer rows per kv head than this do not repay the packing of keys for the tiles.
constexpr std::size_t kLeastTileRows = 12;
// Rows of a tile: enough to hide the packing, few enough for L2.
constexpr std::size_t kTileRows = 192;
// Multiplications below which a region costs more than it saves (about 4 µs).
constexpr std::size_t kParallelWork = std::size_t{1} << 18;

// Floats that a thread keeps for its next call; they grow and die with the thread.
class Scratch {
 public:
  float* at_least(std::size_t floats) {
    if (memory_.size() < floats + kAlignment) memory_.resize(floats + kAlignment);
    void* aligned = memory_.data();
    std::size_t space = memory_.size() * sizeof(float);
    return static_cast<float*>(std::align(64, floats * sizeof(float), aligned, space));
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  std::vector<float> memory_;
};
thread_local Scratch tile_scratch;
thread_local Scratch partial_scratch;

const std::byte* stream(const KvView& cache, const std::byte* data, std::size_t kv_head,
                        std::size_t position) {
  const std::size_t offset = (kv_head * cache.capacity + position) * cache.head_dim;
  return data + offset * size_of(cache.type);
}

std::size_t first_visible(const AttentionShape& shape, std::size_t position) {
  return shape.window > 0 && position >= shape.window ? position + 1 - shape.window : 0;
}

// The splitting of few queries: per query and kv head, blocks of keys whose partials are merged.
struct Decode {
  const KvView& cache;
  const AttentionShape& shape;
  const float* q;
  std::size_t q_stride;
  float* out;
  std::size_t out_stride;
  float* partials = nullptr;

  std::size_t group() const { return shape.heads / cache.kv_heads; }
  std::size_t first_block() const { return first_visible(shape, shape.first) / kKeyBlock; }
  std::size_t blocks() const {
    return (shape.first + shape.count - 1) / kKeyBlock + 1 - first_block();
  }
  std::size_t partial_floats() const { return cache.head_dim + 2; }
  std::size_t items() const { return shape.count * cache.kv_heads * blocks(); }
  std::size_t merges() const { return shape.count * shape.heads; }
  // [query, head, block]
  float* partial(std::size_t row, std::size_t block) const {
    return partials + (row * blocks() + block) * partial_floats();
  }

  void attend_item(std::size_t item) const {
    const std::size_t block = item % blocks(), kv_head = item / blocks() % cache.kv_heads;
    const std::size_t query = item / blocks() / cache.kv_heads, position = shape.first + query;
    const std::size_t block_begin = (first_block() + block) * kKeyBlock;
    const std::size_t begin = std::max(block_begin, first_visible(shape, position));
    const std::size_t end = std::min(block_begin + kKeyBlock, position + 1);
    float* const target = partial(query * shape.heads + kv_head * group(), block);
    const std::size_t stride = blocks() * partial_floats();
    if (begin >= end) {  // a block that only another query of this call sees
      for (std::size_t head = 0; head < group(); ++head) {
        std::fill_n(target + head * stride, partial_floats(), 0.0F);
        target[head * stride] = -std::numeric_limits<float>::infinity();
      }
      return;
    }
    decode_block(DecodeBlock{.type = cache.type,
                             .keys = stream(cache, cache.keys, kv_head, begin),
                             .values = stream(cache, cache.values, kv_head, begin),
                             .count = end - begin,
                             .head_dim = cache.head_dim,
                             .heads = group(),
                             .q = q + query * q_stride + kv_head * group() * cache.head_dim,
                             .scale = shape.scale,
                             .partials = target,
                             .partial_stride = stride});
  }

  // Σ_b 2^(m_b − M) o_b / Σ_b 2^(m_b − M) l_b, blocks in order.
  void merge(std::size_t row) const {
    float* const target = out + row / shape.heads * out_stride + row % shape.heads * cache.head_dim;
    const float* const first = partial(row, 0);
    if (blocks() == 1) {
      const float inverse = 1 / first[1];
      for (std::size_t d = 0; d < cache.head_dim; ++d) target[d] = inverse * first[2 + d];
      return;
    }
    float largest = first[0];
    for (std::size_t b = 1; b < blocks(); ++b) largest = std::max(largest, partial(row, b)[0]);
    float weights = 0;
    std::fill_n(target, cache.head_dim, 0.0F);
    for (std::size_t b = 0; b < blocks(); ++b) {
      const float* const p = partial(row, b);
      const float weight = p[0] == largest ? 1 : std::exp2(p[0] - largest);
      weights += weight * p[1];
      for (std::size_t d = 0; d < cache.head_dim; ++d) target[d] += weight * p[2 + d];
    }
    const float inverse = 1 / weights;
    for (std::size_t d = 0; d < cache.head_dim; ++d) target[d] *= inverse;
  }
};

void attend_few(Decode decode, bool parallel, ThreadPool& pool) {
  decode.partials =
      partial_scratch.at_least(decode.merges() * decode.blocks() * decode.partial_floats());
  if (!parallel) {
    for (std::size_t item = 0; item < decode.items(); ++item) decode.attend_item(item);
    for (std::size_t row = 0; row < decode.merges(); ++row) decode.merge(row);
    return;
  }
  pool.parallel_for(decode.items(), 1,
                    [&](std::size_t begin, std::size_t) { decode.attend_item(begin); });
  const std::size_t grain = (decode.merges() + pool.size() - 1) / pool.size();
  pool.parallel_for(decode.merges(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) decode.merge(row);
  });
}

// A row's result does not depend on the tile that it is in, so the tiles may fit the pool.
std::size_t queries_per_tile(const KvView& cache, const AttentionShape& shape,
                             std::size_t threads) {
  const std::size_t group = shape.heads / cache.kv_heads;
  std::size_t queries = std::max<std::size_t>(kTileRows / group, 1);
  const auto items = [&] { return (shape.count + queries - 1) / queries * cache.kv_heads; };
  while (threads > 1 && items() < 4 * threads && queries > 1 && queries * group >= 4 * kRowGroup) {
    queries /= 2;
  }
  return queries;
}

void attend_many(const KvView& cache, const AttentionShape& shape, const float* q,
                 std::size_t q_stride, float* out, std::size_t out_stride, bool parallel,
                 ThreadPool& pool) {
  const std::size_t group = shape.heads / cache.kv_heads;
  const std::size_t step = queries_per_tile(cache, shape, parallel ? pool.size() : 1);
  const std::size_t tiles = (shape.count + step - 1) / step, items = tiles * cache.kv_heads;
  const std::size_t scratch = prefill_scratch(step * group, cache.head_dim);
  const auto attend_item = [&](std::size_t item, std::size_t) {
    // The last queries see most: their tiles go first, so that no worker is left with one at the
    // end.
    const std::size_t begin = (tiles - 1 - item / cache.kv_heads) * step;
    const std::size_t kv_head = item % cache.kv_heads, column = kv_head * group * cache.head_dim;
    prefill_tile(PrefillTile{.type = cache.type,
                             .keys = stream(cache, cache.keys, kv_head, 0),
                             .values = stream(cache, cache.values, kv_head, 0),
                             .head_dim = cache.head_dim,
                             .heads = group,
                             .first = shape.first + begin,
                             .queries = std::min(step, shape.count - begin),
                             .window = shape.window,
                             .scale = shape.scale,
                             .q = q + begin * q_stride + column,
                             .q_stride = q_stride,
                             .out = out + begin * out_stride + column,
                             .out_stride = out_stride,
                             .scratch = tile_scratch.at_least(scratch)});
  };
  if (parallel) return pool.parallel_for(items, 1, attend_item);
  for (std::size_t item = 0; item < items; ++item) attend_item(item, item + 1);
}

}  // namespace

void store_kv(const KvView& cache, std::size_t position, const float* k, const float* v,
              std::size_t count, std::size_t stride) {
  EXO_CHECK(position + count <= cache.capacity);
  NarrowFn* const narrow =
      (cache.type == FloatType::kBf16 ? f32_to_bf16 : f32_to_f16).pick(active_isa());
  const auto store = [&](const float* rows, std::byte* data) {
    for (std::size_t head = 0; head < cache.kv_heads; ++head) {
      for (std::size_t row = 0; row < count; ++row) {
        const float* const from = rows + row * stride + head * cache.head_dim;
        const std::size_t to = (head * cache.capacity + position + row) * cache.head_dim;
        if (cache.type == FloatType::kF32) {
          std::copy_n(from, cache.head_dim, reinterpret_cast<float*>(data) + to);
        } else {
          narrow(from, reinterpret_cast<std::uint16_t*>(data) + to, cache.head_dim);
        }
      }
    }
  };
  store(k, cache.keys);
  store(v, cache.values);
}

void attend(const KvView& cache, const AttentionShape& shape, const float* q, std::size_t q_stride,
            float* out, std::size_t out_stride, ThreadPool& pool) {
  EXO_CHECK(cache.head_dim > 0 && cache.head_dim <= kMaxHeadDim);
  EXO_CHECK(cache.kv_heads > 0 && shape.heads % cache.kv_heads == 0);
  EXO_CHECK(shape.first + shape.count <= cache.capacity);
  if (shape.count == 0 || shape.heads == 0) return;
  const std::size_t last = shape.first + shape.count - 1;
  const std::size_t keys = last + 1 - first_visible(shape, last);
  const std::size_t work = 2 * shape.count * keys * shape.heads * cache.head_dim;
  const bool parallel = pool.size() > 1 && work >= kParallelWork;
  if (shape.count > 1 && shape.count * (shape.heads / cache.kv_heads) >= kLeastTileRows) {
    return attend_many(cache, shape, q, q_stride, out, out_stride, parallel, pool);
  }
  attend_few({cache, shape, q, q_stride, out, out_stride}, parallel, pool);
}

}  // namespace exo::kernels
