#include "kernels/pack_block.h"

#include <immintrin.h>

namespace exo::kernels {
namespace {

#define EXO_INLINE __attribute__((always_inline)) static inline

constexpr std::size_t kQuads = kBlockColumns / 4;

// Rows r and r + 8: words 0–3 and 4–7 of each, in four lanes of 128 bits.
EXO_INLINE __m512i load_rows(const std::uint8_t (*codes)[kBlockColumns], int row) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[row])),
                high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[row + 8]));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// Four rows of words become four columns, in each lane.
EXO_INLINE void transpose_lanes(__m512i (&v)[4]) {
  const __m512i low01 = _mm512_unpacklo_epi32(v[0], v[1]),
                high01 = _mm512_unpackhi_epi32(v[0], v[1]),
                low23 = _mm512_unpacklo_epi32(v[2], v[3]),
                high23 = _mm512_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm512_unpacklo_epi64(low01, low23);
  v[1] = _mm512_unpackhi_epi64(low01, low23);
  v[2] = _mm512_unpacklo_epi64(high01, high23);
  v[3] = _mm512_unpackhi_epi64(high01, high23);
}

// quads[q]: word q of all 16 rows.
EXO_INLINE void transpose(const std::uint8_t (*codes)[kBlockColumns], __m512i (&quads)[kQuads]) {
  __m512i a[4], b[4];  // rows 0–3 and 8–11; rows 4–7 and 12–15
  for (int i = 0; i < 4; ++i) {
    a[i] = load_rows(codes, i);
    b[i] = load_rows(codes, 4 + i);
  }
  transpose_lanes(a);
  transpose_lanes(b);
  const __m512i first = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0),
                second = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
  for (int i = 0; i < 4; ++i) {
    quads[i] = _mm512_permutex2var_epi64(a[i], first, b[i]);
    quads[i + 4] = _mm512_permutex2var_epi64(a[i], second, b[i]);
  }
}

// The plane of kBits bits from bit kShift on.
template <int kBits, int kShift>
EXO_INLINE std::byte* store_plane(const __m512i (&quads)[kQuads], std::byte* out) {
  constexpr int kPerVector = 8 / kBits;
  const __m512i mask = _mm512_set1_epi8(static_cast<char>((1U << kBits) - 1));
  for (int first = 0; first < static_cast<int>(kQuads); first += kPerVector, out += 64) {
    __m512i vector = _mm512_setzero_si512();
    for (int s = 0; s < kPerVector; ++s) {
      const __m512i plane = _mm512_and_si512(_mm512_srli_epi32(quads[first + s], kShift), mask);
      vector = _mm512_or_si512(vector, _mm512_slli_epi32(plane, static_cast<unsigned>(s * kBits)));
    }
    _mm512_storeu_si512(out, vector);
  }
  return out;
}

}  // namespace

namespace avx512 {

void pack_16_rows(const std::uint8_t (*codes)[kBlockColumns], std::size_t bits, std::byte* out) {
  __m512i quads[kQuads];
  transpose(codes, quads);
  switch (bits) {
    case 2:
      store_plane<2, 0>(quads, out);
      return;
    case 3:
      store_plane<1, 2>(quads, store_plane<2, 0>(quads, out));
      return;
    case 4:
      store_plane<4, 0>(quads, out);
      return;
    case 5:
      store_plane<1, 4>(quads, store_plane<4, 0>(quads, out));
      return;
    case 6:
      store_plane<2, 4>(quads, store_plane<4, 0>(quads, out));
      return;
    default:
      store_plane<8, 0>(quads, out);
  }
}

#undef EXO_INLINE

}  // namespace avx512
}  // namespace exo::kernels
