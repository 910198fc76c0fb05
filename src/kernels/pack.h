// Rows as a container stores them, repacked into tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/function_ref.h"
#include "core/result.h"
#include "kernels/encoding.h"
#include "kernels/matrix.h"
#include "kernels/thread_pool.h"

namespace exo::kernels {

// The layout of a row in a file.
enum class RowLayout : std::uint8_t {
  kDense,          // numbers of encoding.type, one after another
  kStream,         // MLX: codes as a little-endian bit stream; scales and biases apart, as
                   // encoding.scales and encoding.type say
  kFloat8Squares,  // E4M3 codes, with f32 scales apart, one per square of 128 × 128 weights
  // GGUF blocks, which hold scales and codes together
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kIq4Nl,
  kMxfp4,
  kNvfp4,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Xs,
};

inline constexpr std::size_t kFloat8Square = 128;

// A matrix [rows, cols] in a file's memory, which must stay mapped while it is packed. Addresses
// may be unaligned. The caller has checked that every row is there.
struct RowSource {
  RowLayout layout = RowLayout::kDense;
  Encoding encoding;  // the tiles' encoding that it packs into, without loss
  std::size_t rows = 0, cols = 0;
  const std::byte* codes = nullptr;   // or blocks, or numbers
  const std::byte* scales = nullptr;  // kStream and kFloat8Squares only
  const std::byte* biases = nullptr;  // kStream only
  // Row r of the file's matrix is stored as row row_map[r]; empty: in order.
  std::span<const std::uint32_t> row_map = {};
  // The part of the file's matrix that this is: rows [first_row, first_row + rows), and columns
  // [first_col, first_col + cols) of file_cols (0: of cols). Columns begin and end with whole
  // blocks.
  std::size_t first_row = 0, first_col = 0, file_cols = 0;
};

// How the rows of several sources lie in one matrix.
enum class Arrangement : std::uint8_t {
  kStacked,  // all rows of the first source, then all of the second, …; each source starts a new
             // tile
  kInterleaved,  // two sources of equal shape, tile by tile: gate and up of a SwiGLU
};

// Packs `sources` (same encoding and cols) into one matrix, tiles spread over `pool`. `consumed(i,
// begin, end)`, if given, is told that file rows [begin, end) of source i are no longer needed, so
// that their pages can be dropped; only for sources without row_map, on any thread. Errors:
// kNoSpace: no memory for the tiles; kInvalidInput: NaN or infinity in scales, biases, numbers or
// E4M3 codes (`subject` is left to the caller).
Result<Matrix> pack(
    std::span<const RowSource> sources, Arrangement arrangement, ThreadPool& pool,
    FunctionRef<void(std::size_t source, std::size_t begin, std::size_t end)> consumed);
Result<Matrix> pack(std::span<const RowSource> sources, Arrangement arrangement, ThreadPool& pool);

// Tiles of one source of [rows, cols] whose bytes are all zero, for measurements. Errors: kNoSpace.
Result<Matrix> zero_matrix(const Encoding& encoding, std::size_t rows, std::size_t cols);

// Bytes of the tiles that pack() makes of one source of [rows, cols] for the active ISA.
std::size_t packed_bytes(const Encoding& encoding, std::size_t rows, std::size_t cols);

}  // namespace exo::kernels
