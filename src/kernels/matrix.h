// A weight matrix as a stream of tiles: SIMD lanes are output rows, everything a tile needs streams
// from one pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "kernels/encoding.h"

namespace exo::kernels {

// Zeroed memory of its own mapping, 64-byte aligned, returned to the system when it dies.
class Buffer {
 public:
  Buffer() = default;
  // Errors: kNoSpace.
  static Result<Buffer> allocate(std::size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Tiles of [rows, cols]. A tile is `tile_rows` output rows (16 or 8, as the ISA variant that made
// it wants) × all columns, padded with zero rows and zero columns (to a whole group). Immutable
// once packed.
struct Matrix {
  Encoding encoding;
  std::size_t rows = 0;  // logical output rows over all parts; y[part] are found through part_begin
  std::size_t cols = 0;  // logical input columns
  std::size_t padded_cols = 0;  // a multiple of the group
  std::size_t tile_rows = 0;
  std::size_t tiles = 0;
  std::size_t tile_bytes = 0;
  bool interleaved = false;  // tiles 2t and 2t+1 hold the same rows of gate and up
  std::vector<std::size_t>
      part_tiles;  // kStacked: tiles of each source; its rows start at a whole tile
  std::vector<std::size_t> part_rows;  // rows of each source
  Buffer data;

  const std::byte* tile(std::size_t index) const { return data.data() + index * tile_bytes; }
};

// The weights of output row `row` of source `part`, exactly as f32: f32[cols]. For embedding
// look-ups and tests.
void unpack_row(const Matrix& matrix, std::size_t part, std::size_t row, float* out);

}  // namespace exo::kernels
