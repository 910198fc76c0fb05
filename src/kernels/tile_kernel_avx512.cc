// Tiles of 16 rows: a vector holds four columns of all of them, a lane is an output row.
#include "kernels/tile_kernel.h"

#include <immintrin.h>

namespace exo::kernels::avx512 {
namespace {

#define EXO_INLINE __attribute__((always_inline)) static inline

constexpr std::size_t kRows = 16;
constexpr std::size_t kQuads = 8;  // of a block of 32 columns
// How far ahead of use the tile is fetched: two to three blocks more than the prefetcher of the
// processor runs ahead.
constexpr std::size_t kPrefetch = 3072;

EXO_INLINE __m512i load(const std::byte* p) { return _mm512_loadu_si512(p); }

template <int kShift>
EXO_INLINE __m512i right(__m512i v) {
  return kShift == 0 ? v : _mm512_srli_epi16(v, kShift);
}
template <int kShift>
EXO_INLINE __m512i left(__m512i v) {
  if constexpr (kShift >= 0) return _mm512_slli_epi16(v, kShift);
  return _mm512_srli_epi16(v, -kShift);
}

// The codes of one block as unsigned bytes, a vector per quad.
template <int kBits>
EXO_INLINE void load_codes(const std::byte* p, __m512i (&v)[kQuads]) {
  if constexpr (kBits == 8) {
    for (std::size_t i = 0; i < 8; ++i) v[i] = load(p + 64 * i);
  } else if constexpr (kBits >= 4) {
    const __m512i mask = _mm512_set1_epi8(15);
    for (std::size_t i = 0; i < 4; ++i) {
      const __m512i low = load(p + 64 * i);
      v[2 * i] = _mm512_and_si512(low, mask);
      v[2 * i + 1] = _mm512_and_si512(right<4>(low), mask);
    }
    if constexpr (kBits == 5) {
      const __m512i high = load(p + 256), bit = _mm512_set1_epi8(16);
      v[0] = _mm512_or_si512(v[0], _mm512_and_si512(left<4>(high), bit));
      v[1] = _mm512_or_si512(v[1], _mm512_and_si512(left<3>(high), bit));
      v[2] = _mm512_or_si512(v[2], _mm512_and_si512(left<2>(high), bit));
      v[3] = _mm512_or_si512(v[3], _mm512_and_si512(left<1>(high), bit));
      v[4] = _mm512_or_si512(v[4], _mm512_and_si512(high, bit));
      v[5] = _mm512_or_si512(v[5], _mm512_and_si512(right<1>(high), bit));
      v[6] = _mm512_or_si512(v[6], _mm512_and_si512(right<2>(high), bit));
      v[7] = _mm512_or_si512(v[7], _mm512_and_si512(right<3>(high), bit));
    } else if constexpr (kBits == 6) {
      const __m512i bits = _mm512_set1_epi8(48);
      for (std::size_t i = 0; i < 2; ++i) {
        const __m512i high = load(p + 256 + 64 * i);
        v[4 * i] = _mm512_or_si512(v[4 * i], _mm512_and_si512(left<4>(high), bits));
        v[4 * i + 1] = _mm512_or_si512(v[4 * i + 1], _mm512_and_si512(left<2>(high), bits));
        v[4 * i + 2] = _mm512_or_si512(v[4 * i + 2], _mm512_and_si512(high, bits));
        v[4 * i + 3] = _mm512_or_si512(v[4 * i + 3], _mm512_and_si512(right<2>(high), bits));
      }
    }
  } else {
    const __m512i mask = _mm512_set1_epi8(3);
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i low = load(p + 64 * i);
      v[4 * i] = _mm512_and_si512(low, mask);
      v[4 * i + 1] = _mm512_and_si512(right<2>(low), mask);
      v[4 * i + 2] = _mm512_and_si512(right<4>(low), mask);
      v[4 * i + 3] = _mm512_and_si512(right<6>(low), mask);
    }
    if constexpr (kBits == 3) {
      const __m512i high = load(p + 128), bit = _mm512_set1_epi8(4);
      v[0] = _mm512_or_si512(v[0], _mm512_and_si512(left<2>(high), bit));
      v[1] = _mm512_or_si512(v[1], _mm512_and_si512(left<1>(high), bit));
      v[2] = _mm512_or_si512(v[2], _mm512_and_si512(high, bit));
      v[3] = _mm512_or_si512(v[3], _mm512_and_si512(right<1>(high), bit));
      v[4] = _mm512_or_si512(v[4], _mm512_and_si512(right<2>(high), bit));
      v[5] = _mm512_or_si512(v[5], _mm512_and_si512(right<3>(high), bit));
      v[6] = _mm512_or_si512(v[6], _mm512_and_si512(right<4>(high), bit));
      v[7] = _mm512_or_si512(v[7], _mm512_and_si512(right<5>(high), bit));
    }
  }
}

// 16 numbers of a group's header.
EXO_INLINE __m512 load_numbers(const std::byte* p, FloatType type) {
  if (type == FloatType::kF32) return _mm512_loadu_ps(p);
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  if (type == FloatType::kF16) return _mm512_cvtph_ps(half);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

EXO_INLINE __m512i broadcast(const std::int8_t* q) {
  int word;
  __builtin_memcpy(&word, q, 4);
  return _mm512_set1_epi32(word);
}

// kRowsX rows of activations at once: the tile's codes are unpacked once for all of them.
template <int kBits, bool kAffine, int kRowsX>
EXO_INLINE void fast_rows(const TileView& tile, const ActivationView& x, float* out,
                          std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const FloatType type = tile.encoding->type;
  const std::size_t number_bytes = type == FloatType::kF32 ? 4 : 2;
  const std::size_t group_size = tile.encoding->group_size;
  const std::size_t subgroups = group_size / x.group_size, blocks = x.group_size / kBlockColumns;
  const int zero = kAffine ? 0 : 1 << (kBits - 1);

  __m512 acc[kRowsX];
  for (int m = 0; m < kRowsX; ++m) acc[m] = _mm512_setzero_ps();
  const std::int8_t* q = x.q;
  std::size_t subgroup = 0;
  for (std::size_t first = 0; first < layout.groups; first += layout.groups_per_header) {
    const std::byte* header = tile.data + first * (layout.header_bytes + layout.code_bytes);
    const std::byte* codes = header + layout.groups_per_header * layout.header_bytes;
    for (std::size_t within = 0; within < layout.groups_per_header;
         ++within, header += layout.header_bytes) {
      const __m512 scale = load_numbers(header, type);
      __m512 bias = _mm512_setzero_ps();
      if constexpr (kAffine) bias = load_numbers(header + kRows * number_bytes, type);
      for (std::size_t sub = 0; sub < subgroups; ++sub, ++subgroup) {
        __m512i dot[kRowsX], odd = _mm512_setzero_si512();
        for (int m = 0; m < kRowsX; ++m) {
          dot[m] = kAffine ? _mm512_setzero_si512()
                           : _mm512_set1_epi32(-zero * x.code_sum[m * x.group_stride + subgroup]);
        }
        for (std::size_t b = 0; b < blocks; ++b, q += kBlockColumns, codes += 8 * kBits * 8) {
          for (std::size_t line = 0; line < kBits; ++line) {
            _mm_prefetch(reinterpret_cast<const char*>(codes + kPrefetch + 64 * line), _MM_HINT_T0);
          }
          __m512i v[kQuads];
          load_codes<kBits>(codes, v);
          for (std::size_t i = 0; i < kQuads; ++i) {
            // One row alone would wait for each product; two chains keep the units busy.
            for (int m = 0; m < kRowsX; ++m) {
              __m512i& sum = kRowsX == 1 && i % 2 == 1 ? odd : dot[m];
              sum = _mm512_dpbusd_epi32(sum, v[i], broadcast(q + m * x.col_stride + 4 * i));
            }
          }
        }
        for (int m = 0; m < kRowsX; ++m) {
          const std::size_t at = m * x.group_stride + subgroup;
          const __m512 whole =
              _mm512_cvtepi32_ps(kRowsX == 1 ? _mm512_add_epi32(dot[m], odd) : dot[m]);
          acc[m] =
              _mm512_fmadd_ps(_mm512_mul_ps(whole, scale), _mm512_set1_ps(x.scale[at]), acc[m]);
          if constexpr (kAffine) acc[m] = _mm512_fmadd_ps(bias, _mm512_set1_ps(x.sum[at]), acc[m]);
        }
      }
    }
  }
  for (int m = 0; m < kRowsX; ++m) _mm512_storeu_ps(out + m * out_stride, acc[m]);
}

template <int kBits, bool kAffine, int kRowsX>
EXO_INLINE void exact_rows(const TileView& tile, const ActivationView& x, float* out,
                           std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const FloatType type = tile.encoding->type;
  const std::size_t number_bytes = type == FloatType::kF32 ? 4 : 2;
  const std::size_t blocks = tile.encoding->group_size / kBlockColumns;
  const __m512i byte = _mm512_set1_epi32(255),
                zero = _mm512_set1_epi32(kAffine ? 0 : 1 << (kBits - 1));

  __m512 acc[kRowsX];
  for (int m = 0; m < kRowsX; ++m) acc[m] = _mm512_setzero_ps();
  const float* column = x.x;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const std::size_t within = group % layout.groups_per_header;
    const std::byte* base =
        tile.data + (group - within) * (layout.header_bytes + layout.code_bytes);
    const std::byte* header = base + within * layout.header_bytes;
    const std::byte* codes =
        base + layout.groups_per_header * layout.header_bytes + within * layout.code_bytes;
    __m512 dot[kRowsX];
    for (int m = 0; m < kRowsX; ++m) dot[m] = _mm512_setzero_ps();
    for (std::size_t b = 0; b < blocks; ++b, column += kBlockColumns, codes += 8 * kBits * 8) {
      __m512i v[kQuads];
      load_codes<kBits>(codes, v);
      for (std::size_t i = 0; i < kQuads; ++i) {
        for (unsigned k = 0; k < 4; ++k) {
          const __m512i code = _mm512_and_si512(_mm512_srli_epi32(v[i], 8 * k), byte);
          const __m512 weight = _mm512_cvtepi32_ps(_mm512_sub_epi32(code, zero));
          for (int m = 0; m < kRowsX; ++m) {
            dot[m] = _mm512_fmadd_ps(weight, _mm512_set1_ps(column[m * x.col_stride + 4 * i + k]),
                                     dot[m]);
          }
        }
      }
    }
    const __m512 scale = load_numbers(header, type);
    for (int m = 0; m < kRowsX; ++m) acc[m] = _mm512_fmadd_ps(dot[m], scale, acc[m]);
    if constexpr (kAffine) {
      const __m512 bias = load_numbers(header + kRows * number_bytes, type);
      for (int m = 0; m < kRowsX; ++m) {
        acc[m] = _mm512_fmadd_ps(bias, _mm512_set1_ps(x.x_sum[m * x.group_stride + group]), acc[m]);
      }
    }
  }
  for (int m = 0; m < kRowsX; ++m) _mm512_storeu_ps(out + m * out_stride, acc[m]);
}

template <FloatType kType, int kRowsX>
EXO_INLINE void dense_rows(const TileView& tile, const ActivationView& x, float* out,
                           std::size_t out_stride) {
  constexpr std::size_t kPairBytes = kType == FloatType::kF32 ? 128 : 64;  // two columns of 16 rows
  __m512 even[kRowsX], odd[kRowsX];
  for (int m = 0; m < kRowsX; ++m) even[m] = odd[m] = _mm512_setzero_ps();
  const std::byte* p = tile.data;
  for (std::size_t col = 0; col < tile.layout->padded_cols; col += 2, p += kPairBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(p + kPrefetch), _MM_HINT_T0);
    __m512 first, second;
    if constexpr (kType == FloatType::kBf16) {
      const __m512i pair = load(p);
      first = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
      second = _mm512_castsi512_ps(
          _mm512_and_si512(pair, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
    } else {
      first = load_numbers(p, kType);
      second = load_numbers(p + kPairBytes / 2, kType);
    }
    for (int m = 0; m < kRowsX; ++m) {
      const float* row = x.x + m * x.col_stride + col;
      even[m] = _mm512_fmadd_ps(first, _mm512_set1_ps(row[0]), even[m]);
      odd[m] = _mm512_fmadd_ps(second, _mm512_set1_ps(row[1]), odd[m]);
    }
  }
  for (int m = 0; m < kRowsX; ++m)
    _mm512_storeu_ps(out + m * out_stride, _mm512_add_ps(even[m], odd[m]));
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

template <int kBits, bool kAffine>
void fast(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
          std::size_t out_stride) {
  std::size_t m = 0;
  for (; m + 8 <= count; m += 8)
    fast_rows<kBits, kAffine, 8>(tile, from_row(x, m), out + m * out_stride, out_stride);
  for (; m + 4 <= count; m += 4)
    fast_rows<kBits, kAffine, 4>(tile, from_row(x, m), out + m * out_stride, out_stride);
  for (; m < count; ++m)
    fast_rows<kBits, kAffine, 1>(tile, from_row(x, m), out + m * out_stride, out_stride);
}

template <int kBits, bool kAffine>
void exact(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t out_stride) {
  std::size_t m = 0;
  for (; m + 8 <= count; m += 8)
    exact_rows<kBits, kAffine, 8>(tile, from_row(x, m), out + m * out_stride, out_stride);
  for (; m < count; ++m)
    exact_rows<kBits, kAffine, 1>(tile, from_row(x, m), out + m * out_stride, out_stride);
}

template <FloatType kType>
void dense(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t out_stride) {
  std::size_t m = 0;
  for (; m + 8 <= count; m += 8)
    dense_rows<kType, 8>(tile, from_row(x, m), out + m * out_stride, out_stride);
  for (; m < count; ++m)
    dense_rows<kType, 1>(tile, from_row(x, m), out + m * out_stride, out_stride);
}

template <bool kAffine>
TileKernel* grouped_kernel(int bits, bool is_fast) {
  switch (bits) {
    case 2:
      return is_fast ? fast<2, kAffine> : exact<2, kAffine>;
    case 3:
      return is_fast ? fast<3, kAffine> : exact<3, kAffine>;
    case 4:
      return is_fast ? fast<4, kAffine> : exact<4, kAffine>;
    case 5:
      return is_fast ? fast<5, kAffine> : exact<5, kAffine>;
    case 6:
      return is_fast ? fast<6, kAffine> : exact<6, kAffine>;
    default:
      return is_fast ? fast<8, kAffine> : exact<8, kAffine>;
  }
}

}  // namespace

TileKernel* tile_kernel(const Encoding& encoding, bool is_fast) {
  if (encoding.kind == Encoding::Kind::kDense) {
    if (encoding.type == FloatType::kF32) return dense<FloatType::kF32>;
    return encoding.type == FloatType::kF16 ? dense<FloatType::kF16> : dense<FloatType::kBf16>;
  }
  return encoding.kind == Encoding::Kind::kAffine ? grouped_kernel<true>(encoding.bits, is_fast)
                                                  : grouped_kernel<false>(encoding.bits, is_fast);
}

void quantize_row(const float* x, std::size_t n, std::size_t padded, std::size_t group,
                  const QuantizedRow& out) {
  const __m512i absolute = _mm512_set1_epi32(0x7fffffff);
  for (std::size_t begin = 0, g = 0; begin < padded; begin += group, ++g) {
    __m512 v[4];  // a group has 32 or 64 columns
    const std::size_t vectors = group / 16;
    __m512i max_bits = _mm512_setzero_si512();
    for (std::size_t i = 0; i < vectors; ++i) {
      const std::size_t at = begin + 16 * i;
      const std::size_t left_over = at >= n ? 0 : n - at;
      const auto mask = static_cast<__mmask16>(left_over >= 16 ? 0xffff : (1U << left_over) - 1);
      v[i] = _mm512_maskz_loadu_ps(mask, x + at);
      max_bits = _mm512_max_epu32(max_bits, _mm512_and_si512(_mm512_castps_si512(v[i]), absolute));
    }
    const unsigned bits = _mm512_reduce_max_epu32(max_bits);
    float max;
    __builtin_memcpy(&max, &bits, 4);
    const bool usable = bits < 0x7f800000U && max > 1e-30F;
    const __m512 inverse = _mm512_set1_ps(usable ? 127.0F / max : 0.0F);
    __m512i sums = _mm512_setzero_si512();
    for (std::size_t i = 0; i < vectors; ++i) {
      const __m512i q =
          usable ? _mm512_cvtps_epi32(_mm512_mul_ps(v[i], inverse)) : _mm512_setzero_si512();
      sums = _mm512_add_epi32(sums, q);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q + begin + 16 * i), _mm512_cvtepi32_epi8(q));
    }
    const int sum = _mm512_reduce_add_epi32(sums);
    const float scale = bits >= 0x7f800000U ? __builtin_nanf("") : usable ? max / 127.0F : 0.0F;
    out.scale[g] = scale;
    out.code_sum[g] = sum;
    out.sum[g] = scale * static_cast<float>(sum);
  }
}

#undef EXO_INLINE

}  // namespace exo::kernels::avx512
