// Tiles of 8 rows: a vector holds four columns of all of them, a lane is an output row.
#include "kernels/tile_kernel.h"

#include <immintrin.h>

namespace exo::kernels::avx2 {
namespace {

#define EXO_INLINE __attribute__((always_inline)) static inline

constexpr std::size_t kRows = 8;
constexpr std::size_t kQuads = 8;  // of a block of 32 columns
constexpr std::size_t kVector = 32;

EXO_INLINE __m256i load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// `v` moved by kShift bits, to the right if positive, and the bits of `mask` kept.
template <int kShift>
EXO_INLINE __m256i pick(__m256i v, __m256i mask) {
  if constexpr (kShift > 0) v = _mm256_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm256_slli_epi16(v, -kShift);
  return _mm256_and_si256(v, mask);
}

// Adds the plane of single bits at `p` to the codes, as bit kTo.
template <int kTo>
EXO_INLINE void add_bit_plane(const std::byte* p, __m256i (&v)[kQuads]) {
  const __m256i high = load(p), bit = _mm256_set1_epi8(1 << kTo);
  v[0] = _mm256_or_si256(v[0], pick<0 - kTo>(high, bit));
  v[1] = _mm256_or_si256(v[1], pick<1 - kTo>(high, bit));
  v[2] = _mm256_or_si256(v[2], pick<2 - kTo>(high, bit));
  v[3] = _mm256_or_si256(v[3], pick<3 - kTo>(high, bit));
  v[4] = _mm256_or_si256(v[4], pick<4 - kTo>(high, bit));
  v[5] = _mm256_or_si256(v[5], pick<5 - kTo>(high, bit));
  v[6] = _mm256_or_si256(v[6], pick<6 - kTo>(high, bit));
  v[7] = _mm256_or_si256(v[7], pick<7 - kTo>(high, bit));
}

template <int kBits>
EXO_INLINE void load_codes(const std::byte* p, __m256i (&v)[kQuads]) {
  if constexpr (kBits == 8) {
    for (std::size_t i = 0; i < 8; ++i) v[i] = load(p + kVector * i);
  } else if constexpr (kBits >= 4) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (std::size_t i = 0; i < 4; ++i) {
      const __m256i low = load(p + kVector * i);
      v[2 * i] = pick<0>(low, mask);
      v[2 * i + 1] = pick<4>(low, mask);
    }
    if constexpr (kBits == 5) add_bit_plane<4>(p + 4 * kVector, v);
    if constexpr (kBits == 6) {
      const __m256i bits = _mm256_set1_epi8(48);
      for (std::size_t i = 0; i < 2; ++i) {
        const __m256i high = load(p + kVector * (4 + i));
        v[4 * i] = _mm256_or_si256(v[4 * i], pick<-4>(high, bits));
        v[4 * i + 1] = _mm256_or_si256(v[4 * i + 1], pick<-2>(high, bits));
        v[4 * i + 2] = _mm256_or_si256(v[4 * i + 2], pick<0>(high, bits));
        v[4 * i + 3] = _mm256_or_si256(v[4 * i + 3], pick<2>(high, bits));
      }
    }
  } else {
    const __m256i mask = _mm256_set1_epi8(3);
    for (std::size_t i = 0; i < 2; ++i) {
      const __m256i low = load(p + kVector * i);
      v[4 * i] = pick<0>(low, mask);
      v[4 * i + 1] = pick<2>(low, mask);
      v[4 * i + 2] = pick<4>(low, mask);
      v[4 * i + 3] = pick<6>(low, mask);
    }
    if constexpr (kBits == 3) add_bit_plane<2>(p + 2 * kVector, v);
  }
}

EXO_INLINE __m256 load_numbers(const std::byte* p, FloatType type) {
  if (type == FloatType::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  if (type == FloatType::kF16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

EXO_INLINE __m256i broadcast(const std::int8_t* q) {
  int word;
  __builtin_memcpy(&word, q, 4);
  return _mm256_set1_epi32(word);
}

// Σ of four codes × activations per lane. maddubs adds two products in 16 bits, which 7-bit codes
// cannot overflow; codes of 8 bits arrive as code − 128, whose magnitude is at most 128: 128·127·2
// < 2¹⁵.
template <int kBits>
EXO_INLINE __m256i dot4(__m256i codes, __m256i q) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kBits == 8) {
    return _mm256_madd_epi16(
        _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(q, codes)), ones);
  }
  return _mm256_madd_epi16(_mm256_maddubs_epi16(codes, q), ones);
}

template <int kBits, bool kAffine, int kRowsX>
EXO_INLINE void fast_rows(const TileView& tile, const ActivationView& x, float* out,
                          std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const FloatType type = tile.encoding->type;
  const std::size_t number_bytes = type == FloatType::kF32 ? 4 : 2;
  const std::size_t subgroups = tile.encoding->group_size / x.group_size,
                    blocks = x.group_size / kBlockColumns;
  // What the accumulator starts from, in units of Σq: minus the zero point, plus the 128 that 8-bit
  // codes were moved by.
  const int start = (kAffine ? 0 : -(1 << (kBits - 1))) + (kBits == 8 ? 128 : 0);
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));

  __m256 acc[kRowsX];
  for (int m = 0; m < kRowsX; ++m) acc[m] = _mm256_setzero_ps();
  const std::int8_t* q = x.q;
  std::size_t subgroup = 0;
  for (std::size_t first = 0; first < layout.groups; first += layout.groups_per_header) {
    const std::byte* header = tile.data + first * (layout.header_bytes + layout.code_bytes);
    const std::byte* codes = header + layout.groups_per_header * layout.header_bytes;
    for (std::size_t within = 0; within < layout.groups_per_header;
         ++within, header += layout.header_bytes) {
      const __m256 scale = load_numbers(header, type);
      __m256 bias = _mm256_setzero_ps();
      if constexpr (kAffine) bias = load_numbers(header + kRows * number_bytes, type);
      for (std::size_t sub = 0; sub < subgroups; ++sub, ++subgroup) {
        __m256i dot[kRowsX];
        for (int m = 0; m < kRowsX; ++m)
          dot[m] = _mm256_set1_epi32(start * x.code_sum[m * x.group_stride + subgroup]);
        for (std::size_t b = 0; b < blocks; ++b, q += kBlockColumns, codes += kBits * kVector) {
          __m256i v[kQuads];
          load_codes<kBits>(codes, v);
          for (std::size_t i = 0; i < kQuads; ++i) {
            const __m256i quad = kBits == 8 ? _mm256_xor_si256(v[i], flip) : v[i];
            for (int m = 0; m < kRowsX; ++m) {
              dot[m] = _mm256_add_epi32(dot[m],
                                        dot4<kBits>(quad, broadcast(q + m * x.col_stride + 4 * i)));
            }
          }
        }
        for (int m = 0; m < kRowsX; ++m) {
          const std::size_t at = m * x.group_stride + subgroup;
          acc[m] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(dot[m]), scale),
                                   _mm256_set1_ps(x.scale[at]), acc[m]);
          if constexpr (kAffine) acc[m] = _mm256_fmadd_ps(bias, _mm256_set1_ps(x.sum[at]), acc[m]);
        }
      }
    }
  }
  for (int m = 0; m < kRowsX; ++m) _mm256_storeu_ps(out + m * out_stride, acc[m]);
}

template <int kBits, bool kAffine, int kRowsX>
EXO_INLINE void exact_rows(const TileView& tile, const ActivationView& x, float* out,
                           std::size_t out_stride) {
  const TileLayout& layout = *tile.layout;
  const FloatType type = tile.encoding->type;
  const std::size_t number_bytes = type == FloatType::kF32 ? 4 : 2;
  const std::size_t blocks = tile.encoding->group_size / kBlockColumns;
  const __m256i byte = _mm256_set1_epi32(255),
                zero = _mm256_set1_epi32(kAffine ? 0 : 1 << (kBits - 1));

  __m256 acc[kRowsX];
  for (int m = 0; m < kRowsX; ++m) acc[m] = _mm256_setzero_ps();
  const float* column = x.x;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const std::size_t within = group % layout.groups_per_header;
    const std::byte* base =
        tile.data + (group - within) * (layout.header_bytes + layout.code_bytes);
    const std::byte* header = base + within * layout.header_bytes;
    const std::byte* codes =
        base + layout.groups_per_header * layout.header_bytes + within * layout.code_bytes;
    __m256 dot[kRowsX];
    for (int m = 0; m < kRowsX; ++m) dot[m] = _mm256_setzero_ps();
    for (std::size_t b = 0; b < blocks; ++b, column += kBlockColumns, codes += kBits * kVector) {
      __m256i v[kQuads];
      load_codes<kBits>(codes, v);
      for (std::size_t i = 0; i < kQuads; ++i) {
        for (int k = 0; k < 4; ++k) {
          const __m256i code = _mm256_and_si256(_mm256_srli_epi32(v[i], 8 * k), byte);
          const __m256 weight = _mm256_cvtepi32_ps(_mm256_sub_epi32(code, zero));
          for (int m = 0; m < kRowsX; ++m) {
            dot[m] = _mm256_fmadd_ps(weight, _mm256_set1_ps(column[m * x.col_stride + 4 * i + k]),
                                     dot[m]);
          }
        }
      }
    }
    const __m256 scale = load_numbers(header, type);
    for (int m = 0; m < kRowsX; ++m) acc[m] = _mm256_fmadd_ps(dot[m], scale, acc[m]);
    if constexpr (kAffine) {
      const __m256 bias = load_numbers(header + kRows * number_bytes, type);
      for (int m = 0; m < kRowsX; ++m) {
        acc[m] = _mm256_fmadd_ps(bias, _mm256_set1_ps(x.x_sum[m * x.group_stride + group]), acc[m]);
      }
    }
  }
  for (int m = 0; m < kRowsX; ++m) _mm256_storeu_ps(out + m * out_stride, acc[m]);
}

template <FloatType kType, int kRowsX>
EXO_INLINE void dense_rows(const TileView& tile, const ActivationView& x, float* out,
                           std::size_t out_stride) {
  constexpr std::size_t kPairBytes = kType == FloatType::kF32 ? 64 : 32;  // two columns of 8 rows
  __m256 even[kRowsX], odd[kRowsX];
  for (int m = 0; m < kRowsX; ++m) even[m] = odd[m] = _mm256_setzero_ps();
  const std::byte* p = tile.data;
  for (std::size_t col = 0; col < tile.layout->padded_cols; col += 2, p += kPairBytes) {
    __m256 first, second;
    if constexpr (kType == FloatType::kBf16) {
      const __m256i pair = load(p);
      first = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
      second = _mm256_castsi256_ps(
          _mm256_and_si256(pair, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
    } else {
      first = load_numbers(p, kType);
      second = load_numbers(p + kPairBytes / 2, kType);
    }
    for (int m = 0; m < kRowsX; ++m) {
      const float* row = x.x + m * x.col_stride + col;
      even[m] = _mm256_fmadd_ps(first, _mm256_set1_ps(row[0]), even[m]);
      odd[m] = _mm256_fmadd_ps(second, _mm256_set1_ps(row[1]), odd[m]);
    }
  }
  for (int m = 0; m < kRowsX; ++m)
    _mm256_storeu_ps(out + m * out_stride, _mm256_add_ps(even[m], odd[m]));
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
  for (; m + 4 <= count; m += 4)
    fast_rows<kBits, kAffine, 4>(tile, from_row(x, m), out + m * out_stride, out_stride);
  for (; m < count; ++m)
    fast_rows<kBits, kAffine, 1>(tile, from_row(x, m), out + m * out_stride, out_stride);
}

template <int kBits, bool kAffine>
void exact(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t out_stride) {
  std::size_t m = 0;
  for (; m + 4 <= count; m += 4)
    exact_rows<kBits, kAffine, 4>(tile, from_row(x, m), out + m * out_stride, out_stride);
  for (; m < count; ++m)
    exact_rows<kBits, kAffine, 1>(tile, from_row(x, m), out + m * out_stride, out_stride);
}

template <FloatType kType>
void dense(const TileView& tile, const ActivationView& x, std::size_t count, float* out,
           std::size_t out_stride) {
  std::size_t m = 0;
  for (; m + 4 <= count; m += 4)
    dense_rows<kType, 4>(tile, from_row(x, m), out + m * out_stride, out_stride);
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
  const __m256i absolute = _mm256_set1_epi32(0x7fffffff);
  for (std::size_t begin = 0, g = 0; begin < padded; begin += group, ++g) {
    __m256 v[8];  // a group has 32 or 64 columns
    const std::size_t vectors = group / 8;
    __m256i max_bits = _mm256_setzero_si256();
    for (std::size_t i = 0; i < vectors; ++i) {
      const std::size_t at = begin + 8 * i;
      alignas(32) float tail[8] = {};
      for (std::size_t k = 0; k < 8 && at + 8 > n && at + k < n; ++k) tail[k] = x[at + k];
      v[i] = at + 8 <= n ? _mm256_loadu_ps(x + at) : _mm256_load_ps(tail);
      max_bits = _mm256_max_epu32(max_bits, _mm256_and_si256(_mm256_castps_si256(v[i]), absolute));
    }
    alignas(32) unsigned lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), max_bits);
    unsigned bits = 0;
    for (const unsigned lane : lanes) bits = bits > lane ? bits : lane;
    float max;
    __builtin_memcpy(&max, &bits, 4);
    const bool usable = bits < 0x7f800000U && max > 1e-30F;
    const __m256 inverse = _mm256_set1_ps(usable ? 127.0F / max : 0.0F);
    int sum = 0;
    for (std::size_t i = 0; i < vectors; ++i) {
      alignas(32) int q[8] = {};
      if (usable)
        _mm256_store_si256(reinterpret_cast<__m256i*>(q),
                           _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)));
      for (std::size_t k = 0; k < 8; ++k) {
        out.q[begin + 8 * i + k] = static_cast<std::int8_t>(q[k]);
        sum += q[k];
      }
    }
    const float scale = bits >= 0x7f800000U ? __builtin_nanf("") : usable ? max / 127.0F : 0.0F;
    out.scale[g] = scale;
    out.code_sum[g] = sum;
    out.sum[g] = scale * static_cast<float>(sum);
  }
}

#undef EXO_INLINE

}  // namespace exo::kernels::avx2
