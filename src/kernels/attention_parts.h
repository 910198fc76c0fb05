// The two parts of attend() that are written per instruction set. Both keep, per query head, the
// streaming form of models.md 2.4.3: m near the largest score seen, in units of log 2; l = Σ
// 2^(s−m); o = Σ 2^(s−m) v.
#pragma once

#include <cstddef>

#include "kernels/encoding.h"
#include "kernels/isa.h"

namespace exo::kernels {

inline constexpr std::size_t kMaxHeadDim = 256;
// Keys per step. Blocks lie at multiples of it from position 0, whatever a query may see: where
// they begin is part of the result's last bits.
inline constexpr std::size_t kKeyBlock = 128;
inline constexpr float kLog2E = 1.44269504F;

// One query's heads of one kv head over `count` ≤ kKeyBlock keys.
struct DecodeBlock {
  FloatType type = FloatType::kBf16;
  const std::byte* keys = nullptr;  // [count, head_dim]; values likewise
  const std::byte* values = nullptr;
  std::size_t count = 0, head_dim = 0, heads = 0;
  const float* q = nullptr;  // f32[heads, head_dim]
  float scale = 1;
  float* partials = nullptr;  // out, per head: m, l, o[head_dim]; `partial_stride` floats apart
  std::size_t partial_stride = 0;
};
using DecodeBlockFn = void(const DecodeBlock& block);

// Queries [first, first + queries) of one kv head over all the keys that they see.
struct PrefillTile {
  FloatType type = FloatType::kBf16;
  const std::byte* keys = nullptr;  // [positions, head_dim]; values likewise
  const std::byte* values = nullptr;
  std::size_t head_dim = 0, heads = 0;  // query heads that read this kv head
  std::size_t first = 0, queries = 0, window = 0;
  float scale = 1;
  const float* q =
      nullptr;  // f32[queries, heads, head_dim], queries q_stride floats apart; out too
  std::size_t q_stride = 0;
  float* out = nullptr;
  std::size_t out_stride = 0;
  float* scratch = nullptr;  // prefill_scratch(queries · heads, head_dim) floats, 64-byte aligned
};
using PrefillTileFn = void(const PrefillTile& tile);

template <FloatType T>
inline constexpr std::size_t kBytes = size_of(T);

// Rows of a tile are worked on in groups of this many, columns in panels of that many.
inline constexpr std::size_t kRowGroup = 6, kPanel = 64;

// Static, so that no instruction set's copy of it can become everybody's.
static constexpr std::size_t round_up(std::size_t n, std::size_t step) {
  return (n + step - 1) / step * step;
}

// Queries, scores, outputs, l (per lane) and m of each row; a block of keys and one of values.
static constexpr std::size_t prefill_scratch(std::size_t rows, std::size_t head_dim) {
  const std::size_t padded = round_up(rows, kRowGroup), dims = round_up(head_dim, kPanel);
  return padded * (dims + kKeyBlock + dims + 16 + 1) + 2 * kKeyBlock * dims;
}

namespace scalar {
DecodeBlockFn decode_block;
PrefillTileFn prefill_tile;
}  // namespace scalar
EXO_X86(
    namespace avx2 {
      DecodeBlockFn decode_block;
      PrefillTileFn prefill_tile;
    } namespace avx512 {
      DecodeBlockFn decode_block;
      PrefillTileFn prefill_tile;
    })

}  // namespace exo::kernels
