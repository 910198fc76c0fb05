// The tile kernels over any SIMD width, for tile_kernel_avx2.cc and tile_kernel_avx512.cc alone:
// all of it has internal linkage. `Simd` names the vectors and their operations; a lane is an
// output row.
#pragma once

#include "kernels/tile_kernel.h"

namespace exo::kernels {
namespace {

#define EXO_INLINE __attribute__((always_inline)) inline

using Kind = Encoding::Kind;
using Scales = Encoding::Scales;

constexpr std::size_t kQuads = 8;  // of a block of 32 columns

// What a kernel knows of an encoding when it is compiled. Groups of 16 columns are half a block;
// longer ones are whole blocks.
template <Kind kKind_, int kBits_, Scales kScales_ = Scales::kNumbers, bool kHalfBlocks_ = false>
struct Form {
  static constexpr Kind kKind = kKind_;
  static constexpr int kBits = kBits_;
  static constexpr Scales kScales = kScales_;
  static constexpr bool kHalfBlocks = kHalfBlocks_;
  static constexpr bool kBias = kKind == Kind::kAffine;
  static constexpr bool kTable = kKind == Kind::kNonlinear || kKind == Kind::kFloat4;
};

// The scales and biases of a chunk's groups, one after another.
template <typename Simd, typename F>
struct Head {
  using Floats = typename Simd::Floats;
  static constexpr std::size_t kRows = Simd::kRows;

  EXO_INLINE Head(const std::byte* chunk, FloatType number_type) : p(chunk), type(number_type) {
    if constexpr (F::kScales != Scales::kTwoLevel) return;
    d = Simd::load_numbers(p, FloatType::kF16);
    p += 2 * kRows;
    if constexpr (!F::kBias) return;
    dmin = Simd::load_numbers(p, FloatType::kF16);
    p += 2 * kRows;
  }

  // Those of the next group.
  EXO_INLINE void next(Floats& scale, Floats& bias) {
    bias = Simd::zero();
    if constexpr (F::kScales == Scales::kNumbers) {
      const std::size_t bytes = kRows * (type == FloatType::kF32 ? 4 : 2);
      scale = Simd::load_numbers(p, type);
      if constexpr (F::kBias) bias = Simd::load_numbers(p + bytes, type);
      p += F::kBias ? 2 * bytes : bytes;
    } else if constexpr (F::kScales == Scales::kE8m0) {
      // E2M1 values are doubled, so their scale is halved.
      scale = Simd::template power_of_two < F::kKind == Kind::kFloat4 ? 128 : 127 > (p);
      p += kRows;
    } else if constexpr (F::kScales == Scales::kE4m3) {
      scale =
          Simd::mul(Simd::float8_over_256(p), Simd::set1(F::kKind == Kind::kFloat4 ? 128 : 256));
      p += kRows;
    } else if constexpr (!F::kBias) {
      scale = Simd::mul(d, Simd::signed_bytes(p));
      p += kRows;
    } else {
      Floats size;
      if constexpr (F::kBits == 2) {
        Simd::nibbles(p, scale, size);
      } else {
        scale = Simd::unsigned_bytes(p);
        size = Simd::unsigned_bytes(p + kRows);
      }
      p += F::kBits == 2 ? kRows : 2 * kRows;
      scale = Simd::mul(d, scale);
      bias = Simd::sub(Simd::zero(), Simd::mul(dmin, size));
    }
  }

  const std::byte* p;
  FloatType type;
  Floats d = Simd::zero(), dmin = Simd::zero();
};

// The sums of kCount rows of activations with one tile in fast precision.
template <typename Simd, typename F, int kCount>
struct FastSums {
  using Ints = typename Simd::Ints;
  using Floats = typename Simd::Floats;

  EXO_INLINE explicit FastSums(const ActivationView& activations)
      : x(activations), q(activations.q) {
    for (int m = 0; m < kCount; ++m) acc[m] = Simd::zero();
  }

  EXO_INLINE void start() {
    odd = Simd::set1_int(0);
    for (int m = 0; m < kCount; ++m)
      dot[m] = Simd::set1_int(Simd::template offset<F>() == 0
                                  ? 0
                                  : -Simd::template offset<F>() *
                                        x.code_sum[m * x.group_stride + group]);
  }
  // Adds the products of `kVectors` vectors of values and the next activations.
  template <int kVectors>
  EXO_INLINE void add(const Ints* v) {
    for (int i = 0; i < kVectors; ++i) {
      // One row alone would wait for each product; two chains keep the units busy.
      for (int m = 0; m < kCount; ++m) {
        Ints& sum = kCount == 1 && i % 2 == 1 ? odd : dot[m];
        sum = Simd::template add_dot<F>(sum, v[i], q + m * x.col_stride + 4 * i);
      }
    }
    q += 4 * kVectors;
  }
  EXO_INLINE void finish(Floats scale, Floats bias) {
    for (int m = 0; m < kCount; ++m) {
      const std::size_t at = m * x.group_stride + group;
      const Floats whole = Simd::to_floats(kCount == 1 ? Simd::add(dot[m], odd) : dot[m]);
      acc[m] = Simd::fma(Simd::mul(whole, scale), Simd::set1(x.scale[at]), acc[m]);
      if constexpr (F::kBias) acc[m] = Simd::fma(bias, Simd::set1(x.sum[at]), acc[m]);
    }
    ++group;
  }

  const ActivationView& x;
  const std::int8_t* q;
  std::size_t group = 0;  // of the activations
  Floats acc[kCount];
  Ints dot[kCount], odd;
};

// The same in exact precision.
template <typename Simd, typename F, int kCount>
struct ExactSums {
  using Ints = typename Simd::Ints;
  using Floats = typename Simd::Floats;

  EXO_INLINE explicit ExactSums(const ActivationView& activations)
      : x(activations), column(activations.x) {
    for (int m = 0; m < kCount; ++m) acc[m] = Simd::zero();
  }

  EXO_INLINE void start() {
    for (int m = 0; m < kCount; ++m) dot[m] = Simd::zero();
  }
  template <int kByte>
  EXO_INLINE void add_column(Ints v, const float* from) {
    const Floats weight = Simd::template value_of_byte<F, kByte>(v);
    for (int m = 0; m < kCount; ++m)
      dot[m] = Simd::fma(weight, Simd::set1(from[m * x.col_stride + kByte]), dot[m]);
  }
  template <int kVectors>
  EXO_INLINE void add(const Ints* v) {
    for (int i = 0; i < kVectors; ++i, column += 4) {
      add_column<0>(v[i], column);
      add_column<1>(v[i], column);
      add_column<2>(v[i], column);
      add_column<3>(v[i], column);
    }
  }
  EXO_INLINE void finish(Floats scale, Floats bias) {
    for (int m = 0; m < kCount; ++m) {
      acc[m] = Simd::fma(dot[m], scale, acc[m]);
      if constexpr (F::kBias)
        acc[m] = Simd::fma(bias, Simd::set1(x.x_sum[m * x.group_stride + group]), acc[m]);
    }
    ++group;
  }

  const ActivationView& x;
  const float* column;
  std::size_t group = 0;
  Floats acc[kCount], dot[kCount];
};

EXO_INLINE const std::byte* end_of(const TileView& tile) {
  const TileLayout& layout = *tile.layout;
  return tile.data + layout.padded_cols / layout.chunk_cols * layout.chunk_bytes;
}

// kCount rows of activations at once: the tile's codes are unpacked once for all of them. A group's
// sum is taken in parts of `part` columns, those that share a scale of the activations.
template <typename Simd, typename F, int kCount, typename Sums>
EXO_INLINE void grouped_rows(const TileView& tile, const ActivationView& x, std::size_t part,
                             float* out, std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const std::size_t parts = F::kHalfBlocks ? 1 : tile.encoding->group_size / part;
  const std::size_t blocks = F::kHalfBlocks ? 1 : part / kBlockColumns;
  constexpr std::size_t kBlockBytes = Simd::kRows * F::kBits * 4;
  const std::byte* const end = end_of(tile);
  Sums sums(x);
  for (const std::byte* chunk = tile.data; chunk < end; chunk += layout.chunk_bytes) {
    Head<Simd, F> head(chunk, tile.encoding->type);
    const std::byte* codes = chunk + layout.head_bytes;
    for (std::size_t g = 0; g < layout.groups_per_chunk; g += F::kHalfBlocks ? 2 : 1) {
      typename Simd::Floats scale, bias;
      head.next(scale, bias);
      for (std::size_t p = 0; p < parts; ++p) {
        typename Simd::Ints v[kQuads];
        sums.start();
        for (std::size_t b = 0; b < blocks; ++b, codes += kBlockBytes) {
          Simd::template load_values<F>(codes, v);
          sums.template add<F::kHalfBlocks ? 4 : 8>(v);
        }
        sums.finish(scale, bias);
        if constexpr (F::kHalfBlocks) {
          head.next(scale, bias);
          sums.start();
          sums.template add<4>(v + 4);
          sums.finish(scale, bias);
        }
      }
    }
  }
  for (int m = 0; m < kCount; ++m) Simd::store(out + m * out_stride, sums.acc[m]);
}

// E4M3 codes: lanes 2r and 2r+1 of `low` are columns of row r, those of `high` of row r + kRows/2.
template <typename Simd, Scales kScales, int kCount>
EXO_INLINE void float8_rows(const TileView& tile, const ActivationView& x, float* out,
                            std::size_t out_stride) {
  using Floats = typename Simd::Floats;
  const TileLayout& layout = *tile.layout;
  const std::size_t quads = tile.encoding->group_size / 4;
  Floats low[kCount], high[kCount];
  for (int m = 0; m < kCount; ++m) low[m] = high[m] = Simd::zero();
  const float* column = x.x;
  const std::byte* const end = end_of(tile);
  for (const std::byte* chunk = tile.data; chunk < end; chunk += layout.chunk_bytes) {
    Head<Simd, Form<Kind::kFloat8, 8, kScales>> head(chunk, tile.encoding->type);
    const std::byte* codes = chunk + layout.head_bytes;
    for (std::size_t g = 0; g < layout.groups_per_chunk; ++g) {
      Floats scale, bias, low_dot[kCount], high_dot[kCount];
      head.next(scale, bias);
      for (int m = 0; m < kCount; ++m) low_dot[m] = high_dot[m] = Simd::zero();
      for (std::size_t i = 0; i < quads; ++i, column += 4, codes += 4 * Simd::kRows) {
        Floats values[4];  // even columns of both halves of the rows, then odd ones
        Simd::float8_over_256(codes, values);
        for (int m = 0; m < kCount; ++m) {
          const float* from = column + m * x.col_stride;
          low_dot[m] = Simd::fma(values[0], Simd::set1_pair(from), low_dot[m]);
          high_dot[m] = Simd::fma(values[1], Simd::set1_pair(from), high_dot[m]);
          low_dot[m] = Simd::fma(values[2], Simd::set1_pair(from + 2), low_dot[m]);
          high_dot[m] = Simd::fma(values[3], Simd::set1_pair(from + 2), high_dot[m]);
        }
      }
      Floats low_scale, high_scale;
      Simd::twice(Simd::mul(scale, Simd::set1(256)), low_scale, high_scale);
      for (int m = 0; m < kCount; ++m) {
        low[m] = Simd::fma(low_dot[m], low_scale, low[m]);
        high[m] = Simd::fma(high_dot[m], high_scale, high[m]);
      }
    }
  }
  for (int m = 0; m < kCount; ++m)
    Simd::store(out + m * out_stride, Simd::add_pairs(low[m], high[m]));
}

template <typename Simd, FloatType kType, int kCount>
EXO_INLINE void dense_rows(const TileView& tile, const ActivationView& x, float* out,
                           std::size_t out_stride) {
  using Floats = typename Simd::Floats;
  constexpr std::size_t kPairBytes = 2 * Simd::kRows * (kType == FloatType::kF32 ? 4 : 2);
  Floats even[kCount], odd[kCount];
  for (int m = 0; m < kCount; ++m) even[m] = odd[m] = Simd::zero();
  const std::byte* p = tile.data;
  for (std::size_t col = 0; col < tile.layout->padded_cols; col += 2, p += kPairBytes) {
    Floats first, second;
    if constexpr (kType == FloatType::kBf16) {
      Simd::load_bf16_pairs(p, first, second);
    } else {
      first = Simd::load_numbers(p, kType);
      second = Simd::load_numbers(p + kPairBytes / 2, kType);
    }
    for (int m = 0; m < kCount; ++m) {
      const float* row = x.x + m * x.col_stride + col;
      even[m] = Simd::fma(first, Simd::set1(row[0]), even[m]);
      odd[m] = Simd::fma(second, Simd::set1(row[1]), odd[m]);
    }
  }
  for (int m = 0; m < kCount; ++m) Simd::store(out + m * out_stride, Simd::add(even[m], odd[m]));
}

EXO_INLINE ActivationView from_row(const ActivationView& x, std::size_t m) {
  ActivationView view = x;
  if (x.q != nullptr) {
    view.q += m * x.col_stride;
    view.scale += m * x.group_stride;
    view.sum += m * x.group_stride;
    view.code_sum += m * x.group_stride;
  }
  if (x.x != nullptr) {
    view.x += m * x.col_stride;
    view.x_sum += m * x.group_stride;
  }
  return view;
}

template <typename Simd, typename F>
void fast(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
          std::size_t stride) {
  constexpr int kMost = Simd::kMostRows;
  std::size_t m = 0;
  for (; m + kMost <= count; m += kMost)
    grouped_rows<Simd, F, kMost, FastSums<Simd, F, kMost>>(tile, from_row(x, m), x.group_size,
                                                           out + m * stride, stride);
  for (; kMost > 4 && m + 4 <= count; m += 4)
    grouped_rows<Simd, F, 4, FastSums<Simd, F, 4>>(tile, from_row(x, m), x.group_size,
                                                   out + m * stride, stride);
  for (; m < count; ++m)
    grouped_rows<Simd, F, 1, FastSums<Simd, F, 1>>(tile, from_row(x, m), x.group_size,
                                                   out + m * stride, stride);
}

template <typename Simd, typename F>
void exact(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t stride) {
  constexpr int kMost = Simd::kMostRows;
  const std::size_t part = tile.encoding->group_size;
  std::size_t m = 0;
  for (; m + kMost <= count; m += kMost)
    grouped_rows<Simd, F, kMost, ExactSums<Simd, F, kMost>>(tile, from_row(x, m), part,
                                                            out + m * stride, stride);
  for (; m < count; ++m)
    grouped_rows<Simd, F, 1, ExactSums<Simd, F, 1>>(tile, from_row(x, m), part, out + m * stride,
                                                    stride);
}

template <typename Simd, Scales kScales>
void float8(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
            std::size_t stride) {
  constexpr int kMost = Simd::kMostRows / 2;
  std::size_t m = 0;
  for (; m + kMost <= count; m += kMost)
    float8_rows<Simd, kScales, kMost>(tile, from_row(x, m), out + m * stride, stride);
  for (; m < count; ++m)
    float8_rows<Simd, kScales, 1>(tile, from_row(x, m), out + m * stride, stride);
}

template <typename Simd, FloatType kType>
void dense(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t stride) {
  constexpr int kMost = Simd::kMostRows;
  std::size_t m = 0;
  for (; m + kMost <= count; m += kMost)
    dense_rows<Simd, kType, kMost>(tile, from_row(x, m), out + m * stride, stride);
  for (; m < count; ++m) dense_rows<Simd, kType, 1>(tile, from_row(x, m), out + m * stride, stride);
}

template <typename Simd, typename F>
TileKernel* grouped_kernel(bool is_fast) {
  return is_fast ? fast<Simd, F> : exact<Simd, F>;
}

template <typename Simd>
TileKernel* affine_kernel(int bits, bool is_fast) {
  switch (bits) {
    case 2:
      return grouped_kernel<Simd, Form<Kind::kAffine, 2>>(is_fast);
    case 3:
      return grouped_kernel<Simd, Form<Kind::kAffine, 3>>(is_fast);
    case 4:
      return grouped_kernel<Simd, Form<Kind::kAffine, 4>>(is_fast);
    case 5:
      return grouped_kernel<Simd, Form<Kind::kAffine, 5>>(is_fast);
    case 6:
      return grouped_kernel<Simd, Form<Kind::kAffine, 6>>(is_fast);
    default:
      return grouped_kernel<Simd, Form<Kind::kAffine, 8>>(is_fast);
  }
}

template <typename Simd>
TileKernel* symmetric_kernel(int bits, bool is_fast) {
  if (bits == 4) return grouped_kernel<Simd, Form<Kind::kSymmetric, 4>>(is_fast);
  if (bits == 5) return grouped_kernel<Simd, Form<Kind::kSymmetric, 5>>(is_fast);
  return grouped_kernel<Simd, Form<Kind::kSymmetric, 8>>(is_fast);
}

template <typename Simd>
TileKernel* two_level_kernel(const Encoding& encoding, bool is_fast) {
  constexpr Scales kTwo = Scales::kTwoLevel;
  if (encoding.kind == Kind::kNonlinear)
    return grouped_kernel<Simd, Form<Kind::kNonlinear, 4, kTwo>>(is_fast);
  switch (encoding.bits) {
    case 2:
      return grouped_kernel<Simd, Form<Kind::kAffine, 2, kTwo, true>>(is_fast);
    case 3:
      return grouped_kernel<Simd, Form<Kind::kSymmetric, 3, kTwo, true>>(is_fast);
    case 4:
      return grouped_kernel<Simd, Form<Kind::kAffine, 4, kTwo>>(is_fast);
    case 5:
      return grouped_kernel<Simd, Form<Kind::kAffine, 5, kTwo>>(is_fast);
    default:
      return grouped_kernel<Simd, Form<Kind::kSymmetric, 6, kTwo, true>>(is_fast);
  }
}

template <typename Simd>
TileKernel* kernel_of(const Encoding& encoding, bool is_fast) {
  if (encoding.scales == Scales::kTwoLevel) return two_level_kernel<Simd>(encoding, is_fast);
  const bool e8m0 = encoding.scales == Scales::kE8m0;
  switch (encoding.kind) {
    case Kind::kAffine:
      return affine_kernel<Simd>(encoding.bits, is_fast);
    case Kind::kSymmetric:
      return symmetric_kernel<Simd>(encoding.bits, is_fast);
    case Kind::kNonlinear:
      return grouped_kernel<Simd, Form<Kind::kNonlinear, 4>>(is_fast);
    case Kind::kFloat4:
      return e8m0 ? grouped_kernel<Simd, Form<Kind::kFloat4, 4, Scales::kE8m0>>(is_fast)
                  : grouped_kernel<Simd, Form<Kind::kFloat4, 4, Scales::kE4m3, true>>(is_fast);
    case Kind::kFloat8:
      return e8m0 ? float8<Simd, Scales::kE8m0> : float8<Simd, Scales::kNumbers>;
    case Kind::kDense:
      break;
  }
  if (encoding.type == FloatType::kF32) return dense<Simd, FloatType::kF32>;
  return encoding.type == FloatType::kF16 ? dense<Simd, FloatType::kF16>
                                          : dense<Simd, FloatType::kBf16>;
}

#undef EXO_INLINE

}  // namespace
}  // namespace exo::kernels
