// decode_block over any SIMD width, for attention_avx2.cc and attention_avx512.cc alone: all of it
// has internal linkage. `Simd` names the vector type and its operations.
//
// 16-bit numbers are read in pairs of vectors: bf16 as even and odd elements (a shift and a mask
// are cheaper than spreading words), the others as first and second half. q is brought into the
// order of the pairs beforehand and the sums back into their own at the end.
#pragma once

#include "kernels/attention_parts.h"

namespace exo::kernels {
namespace {

inline constexpr std::size_t kHeadsAtOnce = 4;

template <typename Simd>
constexpr std::size_t kPair = 2 * Simd::kLanes;

// scale·x[n] in the order of the pairs, zeros up to a whole pair.
template <typename Simd, FloatType T>
void to_pairs(const float* x, std::size_t n, float scale, float* y) {
  constexpr std::size_t kLanes = Simd::kLanes;
  for (std::size_t d = 0; d < n; d += kPair<Simd>, x += kPair<Simd>, y += kPair<Simd>) {
    if (n - d >= kPair<Simd>) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        y[i] = scale * x[T == FloatType::kBf16 ? 2 * i : i];
        y[kLanes + i] = scale * x[T == FloatType::kBf16 ? 2 * i + 1 : kLanes + i];
      }
      continue;
    }
    for (std::size_t i = 0; i < kPair<Simd>; ++i) {
      const std::size_t from = T != FloatType::kBf16 ? i
                               : i < kLanes          ? 2 * i
                                                     : 2 * (i - kLanes) + 1;
      y[i] = from < n - d ? scale * x[from] : 0;
    }
  }
}

// The way back: y[n] = x in its own order.
template <typename Simd, FloatType T>
void from_pairs(const float* x, std::size_t n, float* y) {
  constexpr std::size_t kLanes = Simd::kLanes;
  for (std::size_t d = 0; d < n; d += kPair<Simd>, x += kPair<Simd>, y += kPair<Simd>) {
    const std::size_t left = n - d < kPair<Simd> ? n - d : kPair<Simd>;
    if (left == kPair<Simd>) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        y[T == FloatType::kBf16 ? 2 * i : i] = x[i];
        y[T == FloatType::kBf16 ? 2 * i + 1 : kLanes + i] = x[kLanes + i];
      }
      continue;
    }
    for (std::size_t i = 0; i < left; ++i) {
      y[i] = x[T != FloatType::kBf16 ? i : i / 2 + (i % 2 != 0 ? kLanes : 0)];
    }
  }
}

// scores[h][0, count) = q[h]·k; a few more are written, up to a multiple of Simd::kKeys.
template <typename Simd, FloatType T, std::size_t kHeads>
[[gnu::always_inline]] inline void score_keys(const std::byte* keys, std::size_t count,
                                              std::size_t head_dim, const float* q,
                                              float (*scores)[kKeyBlock]) {
  using V = typename Simd::V;
  constexpr std::size_t kKeys = Simd::kKeys;
  const std::size_t dims = round_up(head_dim, kPair<Simd>);
  for (std::size_t j = 0; j < count; j += kKeys) {
    const std::byte* k[kKeys];  // the last is read again in place of those beyond the end
    for (std::size_t i = 0; i < kKeys; ++i) {
      k[i] = keys + (j + i < count ? j + i : count - 1) * head_dim * kBytes<T>;
    }
    V sums[kHeads][kKeys];
    for (auto& row : sums) {
      for (V& sum : row) sum = Simd::zero();
    }
    for (std::size_t d = 0; d < dims; d += kPair<Simd>) {
      V a[kKeys], b[kKeys];
      for (std::size_t i = 0; i < kKeys; ++i) {
        Simd::template load_pair<T>(k[i] + d * kBytes<T>, head_dim - d, a[i], b[i]);
      }
      for (std::size_t h = 0; h < kHeads; ++h) {
        const V qa = Simd::load(q + h * dims + d), qb = Simd::load(q + h * dims + d + Simd::kLanes);
        for (std::size_t i = 0; i < kKeys; ++i) {
          sums[h][i] = Simd::fma(b[i], qb, Simd::fma(a[i], qa, sums[h][i]));
        }
      }
    }
    for (std::size_t h = 0; h < kHeads; ++h) Simd::store_sums(scores[h] + j, sums[h]);
  }
}

// In place 2^(s − m); returns m in `largest`, Σ 2^(s − m) in `total`.
template <typename Simd>
void weigh_keys(float* scores, std::size_t count, float& largest, float& total) {
  using V = typename Simd::V;
  const V lowest = Simd::set1(-__builtin_inff());
  V most = lowest;
  for (std::size_t j = 0; j < count; j += Simd::kLanes) {
    const V s = Simd::load_some(scores + j, count - j, lowest);
    most = Simd::max(most, s);
    Simd::store(scores + j, s);
  }
  largest = Simd::max_of(most);
  const V m = Simd::set1(largest);
  V sum = Simd::zero();
  for (std::size_t j = 0; j < count; j += Simd::kLanes) {
    const V p = Simd::exp2(Simd::sub(Simd::load(scores + j), m));
    Simd::store(scores + j, p);
    sum = Simd::add(sum, p);
  }
  total = Simd::sum(sum);
}

// o[h][d, d + 2·kPairs·lanes) = Σ_j p[h][j]·v[j][d…].
template <typename Simd, FloatType T, std::size_t kHeads, std::size_t kPairs>
[[gnu::always_inline]] inline void sum_values(const std::byte* values, std::size_t count,
                                              std::size_t head_dim, std::size_t d,
                                              const float (*p)[kKeyBlock], float* o,
                                              std::size_t o_stride) {
  using V = typename Simd::V;
  V sums[kHeads][2 * kPairs];
  for (auto& row : sums) {
    for (V& sum : row) sum = Simd::zero();
  }
  const std::byte* v = values + d * kBytes<T>;
  for (std::size_t j = 0; j < count; ++j, v += head_dim * kBytes<T>) {
    V x[2 * kPairs];
    for (std::size_t i = 0; i < kPairs; ++i) {
      Simd::template load_pair<T>(v + i * kPair<Simd> * kBytes<T>, head_dim - d - i * kPair<Simd>,
                                  x[2 * i], x[2 * i + 1]);
    }
    for (std::size_t h = 0; h < kHeads; ++h) {
      const V weight = Simd::set1(p[h][j]);
      for (std::size_t i = 0; i < 2 * kPairs; ++i) sums[h][i] = Simd::fma(weight, x[i], sums[h][i]);
    }
  }
  for (std::size_t h = 0; h < kHeads; ++h) {
    for (std::size_t i = 0; i < 2 * kPairs; ++i) {
      Simd::store(o + h * o_stride + d + i * Simd::kLanes, sums[h][i]);
    }
  }
}

// kDim: head_dim where it is known while compiling, which unrolls the loops over it; else 0.
template <typename Simd, FloatType T, std::size_t kDim, std::size_t kHeads>
void decode_heads(const DecodeBlock& block, std::size_t first_head) {
  const std::size_t n = kDim > 0 ? kDim : block.head_dim, dims = round_up(n, kPair<Simd>);
  alignas(64) float q[kHeads * kMaxHeadDim], o[kHeads * kMaxHeadDim], scores[kHeads][kKeyBlock];
  for (std::size_t h = 0; h < kHeads; ++h) {
    to_pairs<Simd, T>(block.q + (first_head + h) * n, n, block.scale * kLog2E, q + h * dims);
  }
  score_keys<Simd, T, kHeads>(block.keys, block.count, n, q, scores);
  for (std::size_t h = 0; h < kHeads; ++h) {
    float* const partial = block.partials + (first_head + h) * block.partial_stride;
    weigh_keys<Simd>(scores[h], block.count, partial[0], partial[1]);
  }
  std::size_t d = 0;
  for (; d + 2 * kPair<Simd> <= dims && Simd::kWide; d += 2 * kPair<Simd>) {
    sum_values<Simd, T, kHeads, 2>(block.values, block.count, n, d, scores, o, dims);
  }
  for (; d < dims; d += kPair<Simd>) {
    sum_values<Simd, T, kHeads, 1>(block.values, block.count, n, d, scores, o, dims);
  }
  for (std::size_t h = 0; h < kHeads; ++h) {
    float* const partial = block.partials + (first_head + h) * block.partial_stride;
    from_pairs<Simd, T>(o + h * dims, n, partial + 2);
  }
}

template <typename Simd, FloatType T, std::size_t kDim>
void decode_dim(const DecodeBlock& block) {
  std::size_t head = 0;
  for (; head + kHeadsAtOnce <= block.heads; head += kHeadsAtOnce) {
    decode_heads<Simd, T, kDim, kHeadsAtOnce>(block, head);
  }
  switch (block.heads - head) {
    case 3:
      return decode_heads<Simd, T, kDim, 3>(block, head);
    case 2:
      return decode_heads<Simd, T, kDim, 2>(block, head);
    case 1:
      return decode_heads<Simd, T, kDim, 1>(block, head);
    default:
      return;
  }
}

template <typename Simd, FloatType T>
void decode_type(const DecodeBlock& block) {
  if (block.head_dim == 64) return decode_dim<Simd, T, 64>(block);
  if (block.head_dim == 128) return decode_dim<Simd, T, 128>(block);
  decode_dim<Simd, T, 0>(block);
}

template <typename Simd>
void decode_any(const DecodeBlock& block) {
  switch (block.type) {
    case FloatType::kF32:
      return decode_type<Simd, FloatType::kF32>(block);
    case FloatType::kF16:
      return decode_type<Simd, FloatType::kF16>(block);
    case FloatType::kBf16:
      return decode_type<Simd, FloatType::kBf16>(block);
  }
}

}  // namespace
}  // namespace exo::kernels
