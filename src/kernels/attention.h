// Attention of grouped query heads over the keys and values of one layer's cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/encoding.h"
#include "kernels/thread_pool.h"

namespace exo::kernels {

// One layer's keys and values of one sequence, as attend() reads them. Head-major, so that one
// head's keys are one stream: keys[kv_head][position][head_dim], values likewise; `capacity`
// positions between heads.
struct KvView {
  FloatType type = FloatType::kBf16;  // of both; kExact keeps kF32
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  std::size_t kv_heads = 0, head_dim = 0, capacity = 0;
};

// Stores k and v (f32[count, kv_heads, head_dim], rows `stride` floats apart) at positions
// [position, position + count).
void store_kv(const KvView& cache, std::size_t position, const float* k, const float* v,
              std::size_t count, std::size_t stride);

struct AttentionShape {
  std::size_t heads = 0;  // query heads; head h reads kv head h / (heads / kv_heads)
  std::size_t first =
      0;  // position of the first query; query i sees keys [window start, first + i]
  std::size_t count = 1;   // queries
  std::size_t window = 0;  // > 0: only the last `window` keys, itself included
  float scale = 1;         // on q·k
};

// out[i, h] = Σ_j softmax_j(scale·q[i, h]·k_j) v_j.  q: f32[count, heads, head_dim], rows q_stride
// floats apart; out likewise. Softmax in f32, in the streaming form of models.md 2.4.3 over blocks
// of a fixed size, so that the number of threads never changes the result. Keys [0, first + count)
// are in the cache already. `head_dim` ≤ 256.
void attend(const KvView& cache, const AttentionShape& shape, const float* q, std::size_t q_stride,
            float* out, std::size_t out_stride, ThreadPool& pool);

}  // namespace exo::kernels
