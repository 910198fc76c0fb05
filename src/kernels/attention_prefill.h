// prefill_tile over any SIMD width, for attention_avx2.cc and attention_avx512.cc alone: all of it
// has internal linkage. `Simd` names the vector type and its operations.
//
// Per block of keys: keys transposed and values, both as f32 panels of 64 columns; scores = Q·Kᵀ;
// weights; O += P·V. Both products are the same register-blocked loop.
#pragma once

#include "kernels/attention_parts.h"

namespace exo::kernels {
namespace {

// c[6, kVectors·lanes] = or += a[6, inner] · panel[inner, ·]; panel rows are kPanel floats apart.
template <typename Simd, std::size_t kVectors, bool kAdd>
void multiply_rows(const float* a, std::size_t a_stride, const float* panel, std::size_t inner,
                   float* c, std::size_t c_stride) {
  using V = typename Simd::V;
  V sums[kRowGroup][kVectors];
  for (std::size_t r = 0; r < kRowGroup; ++r) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums[r][i] = kAdd ? Simd::load(c + r * c_stride + i * Simd::kLanes) : Simd::zero();
    }
  }
  for (std::size_t k = 0; k < inner; ++k) {
    V b[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i)
      b[i] = Simd::load(panel + k * kPanel + i * Simd::kLanes);
    for (std::size_t r = 0; r < kRowGroup; ++r) {
      const V x = Simd::set1(a[r * a_stride + k]);
      for (std::size_t i = 0; i < kVectors; ++i) sums[r][i] = Simd::fma(x, b[i], sums[r][i]);
    }
  }
  for (std::size_t r = 0; r < kRowGroup; ++r) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      Simd::store(c + r * c_stride + i * Simd::kLanes, sums[r][i]);
    }
  }
}

// The same for any number of columns up to kPanel; up to lanes − 1 more are written.
template <typename Simd, bool kAdd>
void multiply_panel(const float* a, std::size_t a_stride, const float* panel, std::size_t inner,
                    std::size_t columns, float* c, std::size_t c_stride) {
  constexpr std::size_t kVectors = Simd::kColumnVectors, kLanes = Simd::kLanes;
  std::size_t done = 0;
  for (; done + kVectors * kLanes <= columns; done += kVectors * kLanes) {
    multiply_rows<Simd, kVectors, kAdd>(a, a_stride, panel + done, inner, c + done, c_stride);
  }
  const std::size_t left = done < columns ? (columns - done + kLanes - 1) / kLanes : 0;
  if (left == 1) multiply_rows<Simd, 1, kAdd>(a, a_stride, panel + done, inner, c + done, c_stride);
  if constexpr (kVectors > 2) {
    if (left == 2) {
      multiply_rows<Simd, 2, kAdd>(a, a_stride, panel + done, inner, c + done, c_stride);
    } else if (left == 3) {
      multiply_rows<Simd, 3, kAdd>(a, a_stride, panel + done, inner, c + done, c_stride);
    } else if (left == 4) {
      multiply_rows<Simd, 4, kAdd>(a, a_stride, panel + done, inner, c + done, c_stride);
    }
  } else if (left == 2) {
    multiply_rows<Simd, 2, kAdd>(a, a_stride, panel + done, inner, c + done, c_stride);
  }
}

// panels[key / 64][d][key % 64]; the keys up to the next multiple of the lanes are zero.
template <typename Simd, FloatType T>
void pack_keys(const std::byte* keys, std::size_t count, std::size_t head_dim, float* panels) {
  constexpr std::size_t kLanes = Simd::kLanes;
  for (std::size_t j = 0; j < count; j += kLanes) {
    float* const panel = panels + j / kPanel * head_dim * kPanel + j % kPanel;
    const std::size_t left = count - j < kLanes ? count - j : kLanes;
    for (std::size_t d = 0; d < head_dim; d += kLanes) {
      typename Simd::V rows[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) {
        rows[i] = i < left ? Simd::template widen<T>(keys + ((j + i) * head_dim + d) * kBytes<T>,
                                                     head_dim - d)
                           : Simd::zero();
      }
      Simd::transpose(rows);
      for (std::size_t i = 0; i < kLanes && d + i < head_dim; ++i) {
        Simd::store(panel + (d + i) * kPanel, rows[i]);
      }
    }
  }
}

// panels[d / 64][key][d % 64]; the dimensions up to the next multiple of the lanes are zero.
template <typename Simd, FloatType T>
void pack_values(const std::byte* values, std::size_t count, std::size_t head_dim, float* panels) {
  for (std::size_t d = 0; d < head_dim; d += Simd::kLanes) {
    float* const panel = panels + d / kPanel * kKeyBlock * kPanel + d % kPanel;
    for (std::size_t j = 0; j < count; ++j) {
      const std::byte* const from = values + (j * head_dim + d) * kBytes<T>;
      Simd::store(panel + j * kPanel, Simd::template widen<T>(from, head_dim - d));
    }
  }
}

// How far, in powers of two, scores may rise above m before m follows: weights grow to 2^8 then,
// which costs f32 nothing and saves most of the rescaling.
inline constexpr float kSlack = 8;

// scores[begin, end) become weights 2^(s − m), the rest of [0, width) zeros; their sums per lane
// are added to l[lanes]. Returns what the sums so far are worth in units of the new m.
template <typename Simd>
float weigh_row(float* scores, std::size_t begin, std::size_t end, std::size_t width, float& m,
                float* l) {
  using V = typename Simd::V;
  constexpr std::size_t kLanes = Simd::kLanes;
  if (begin >= end) end = begin = 0;
  const V lowest = Simd::set1(-__builtin_inff());
  for (std::size_t j = 0; j < begin; ++j) scores[j] = -__builtin_inff();
  const std::size_t whole = end / kLanes * kLanes;
  V most = lowest;
  for (std::size_t j = 0; j < whole; j += kLanes) most = Simd::max(most, Simd::load(scores + j));
  if (whole < end) {
    const V s = Simd::load_some(scores + whole, end - whole, lowest);
    Simd::store(scores + whole, s);
    most = Simd::max(most, s);
  }
  float factor = 1;
  if (Simd::any_above(most, Simd::set1(m + kSlack))) {
    const float largest = Simd::max_of(most);
    factor = Simd::first(Simd::exp2(Simd::set1(m - largest)));
    m = largest;
  }
  const V shift = Simd::set1(m);
  V sum = Simd::mul(Simd::load(l), Simd::set1(factor));
  for (std::size_t j = 0; j < end; j += kLanes) {
    const V p = Simd::exp2(Simd::sub(Simd::load(scores + j), shift));
    Simd::store(scores + j, p);
    sum = Simd::add(sum, p);
  }
  Simd::store(l, sum);
  for (std::size_t j = round_up(end, kLanes); j < width; j += kLanes) {
    Simd::store(scores + j, Simd::zero());
  }
  return factor;
}

template <typename Simd>
class TileWork {
 public:
  explicit TileWork(const PrefillTile& tile)
      : tile_(tile),
        rows_(tile.queries * tile.heads),
        padded_(round_up(rows_, kRowGroup)),
        dims_(round_up(tile.head_dim, kPanel)),
        q_(tile.scratch),
        scores_(q_ + padded_ * dims_),
        o_(scores_ + padded_ * kKeyBlock),
        keys_(o_ + padded_ * dims_),
        values_(keys_ + kKeyBlock * dims_),
        l_(values_ + kKeyBlock * dims_),
        m_(l_ + padded_ * Simd::kLanes) {}

  template <FloatType T>
  void run() {
    load_queries();
    const std::size_t end = tile_.first + tile_.queries, head_dim = tile_.head_dim;
    for (std::size_t begin = first_visible(0) / kKeyBlock * kKeyBlock; begin < end;
         begin += kKeyBlock) {
      const std::size_t count = end - begin < kKeyBlock ? end - begin : kKeyBlock;
      const std::size_t offset = begin * head_dim * kBytes<T>;
      pack_keys<Simd, T>(tile_.keys + offset, count, head_dim, keys_);
      pack_values<Simd, T>(tile_.values + offset, count, head_dim, values_);
      score(begin, count);
      for (std::size_t group = 0; group < padded_; group += kRowGroup) weigh(group, begin, count);
      add_values(begin, count);
    }
    store_outputs();
  }

 private:
  // The range of a block's keys that a row, or any row of a group, sees.
  struct Range {
    std::size_t begin, end;
  };

  std::size_t first_visible(std::size_t row) const {
    const std::size_t position = position_of(row);
    return tile_.window > 0 && position >= tile_.window ? position + 1 - tile_.window : 0;
  }
  // Rows beyond the last count as the last.
  std::size_t position_of(std::size_t row) const {
    return tile_.first + (row < rows_ ? row : rows_ - 1) / tile_.heads;
  }
  Range seen_by(std::size_t first_row, std::size_t last_row, std::size_t block,
                std::size_t count) const {
    const std::size_t first = first_visible(first_row), end = position_of(last_row) + 1;
    return {.begin = first > block ? first - block : 0,
            .end = end <= block          ? 0
                   : end - block < count ? end - block
                                         : count};
  }
  Range seen_by_group(std::size_t group, std::size_t block, std::size_t count) const {
    return seen_by(group, group + kRowGroup - 1, block, count);
  }

  // Rows of one kv head lie too far apart for the processor to guess the next. An address beyond
  // the last query is harmless.
  static constexpr std::size_t kAhead = 4;  // queries
  void prefetch(const float* row) const {
    for (std::size_t d = 0; d < tile_.head_dim; d += 16) __builtin_prefetch(row + d);
  }

  void load_queries() {
    const auto scale = Simd::set1(tile_.scale * kLog2E);
    for (std::size_t row = 0; row < padded_; ++row) {
      const std::size_t source = row < rows_ ? row : rows_ - 1;  // padding repeats the last row
      const float* const from =
          tile_.q + source / tile_.heads * tile_.q_stride + source % tile_.heads * tile_.head_dim;
      prefetch(from + kAhead * tile_.q_stride);
      for (std::size_t d = 0; d < tile_.head_dim; d += Simd::kLanes) {
        const auto q = Simd::load_some(from + d, tile_.head_dim - d, Simd::zero());
        Simd::store(q_ + row * dims_ + d, Simd::mul(q, scale));
        Simd::store(o_ + row * dims_ + d, Simd::zero());
      }
      Simd::store(l_ + row * Simd::kLanes, Simd::zero());
      m_[row] = -__builtin_inff();
    }
  }

  void score(std::size_t block, std::size_t count) {
    for (std::size_t panel = 0; panel < count; panel += kPanel) {
      const float* const keys = keys_ + panel * tile_.head_dim;
      for (std::size_t group = 0; group < padded_; group += kRowGroup) {
        const Range seen = seen_by_group(group, block, count);
        if (seen.end <= panel || seen.begin >= panel + kPanel) continue;
        const std::size_t columns = seen.end - panel < kPanel ? seen.end - panel : kPanel;
        multiply_panel<Simd, false>(q_ + group * dims_, dims_, keys, tile_.head_dim, columns,
                                    scores_ + group * kKeyBlock + panel, kKeyBlock);
      }
    }
  }

  void weigh(std::size_t group, std::size_t block, std::size_t count) {
    const Range all = seen_by_group(group, block, count);
    if (all.begin >= all.end) return;
    for (std::size_t row = group; row < group + kRowGroup; ++row) {
      const Range seen = seen_by(row, row, block, count);
      const float factor = weigh_row<Simd>(scores_ + row * kKeyBlock, seen.begin, seen.end, all.end,
                                           m_[row], l_ + row * Simd::kLanes);
      if (factor == 1) continue;
      for (std::size_t d = 0; d < tile_.head_dim; d += Simd::kLanes) {
        float* const o = o_ + row * dims_ + d;
        Simd::store(o, Simd::mul(Simd::load(o), Simd::set1(factor)));
      }
    }
  }

  void add_values(std::size_t block, std::size_t count) {
    for (std::size_t d = 0; d < tile_.head_dim; d += kPanel) {
      const float* const values = values_ + d * kKeyBlock;
      const std::size_t columns = tile_.head_dim - d < kPanel ? tile_.head_dim - d : kPanel;
      for (std::size_t group = 0; group < padded_; group += kRowGroup) {
        const Range seen = seen_by_group(group, block, count);
        if (seen.begin >= seen.end) continue;
        multiply_panel<Simd, true>(scores_ + group * kKeyBlock + seen.begin, kKeyBlock,
                                   values + seen.begin * kPanel, seen.end - seen.begin, columns,
                                   o_ + group * dims_ + d, dims_);
      }
    }
  }

  void store_outputs() const {
    for (std::size_t row = 0; row < rows_; ++row) {
      float* const to =
          tile_.out + row / tile_.heads * tile_.out_stride + row % tile_.heads * tile_.head_dim;
      prefetch(to + kAhead * tile_.out_stride);
      const auto inverse = Simd::set1(1 / Simd::sum(Simd::load(l_ + row * Simd::kLanes)));
      for (std::size_t d = 0; d < tile_.head_dim; d += Simd::kLanes) {
        Simd::store_some(to + d, tile_.head_dim - d,
                         Simd::mul(Simd::load(o_ + row * dims_ + d), inverse));
      }
    }
  }

  const PrefillTile& tile_;
  std::size_t rows_, padded_, dims_;
  float* q_;       // [padded, dims], scaled
  float* scores_;  // [padded, kKeyBlock]
  float* o_;       // [padded, dims]
  float* keys_;
  float* values_;
  float* l_;  // [padded, lanes]: sums of weights per lane
  float* m_;  // [padded]
};

template <typename Simd>
void prefill_any(const PrefillTile& tile) {
  TileWork<Simd> work(tile);
  switch (tile.type) {
    case FloatType::kF32:
      return work.template run<FloatType::kF32>();
    case FloatType::kF16:
      return work.template run<FloatType::kF16>();
    case FloatType::kBf16:
      return work.template run<FloatType::kBf16>();
  }
}

}  // namespace
}  // namespace exo::kernels
