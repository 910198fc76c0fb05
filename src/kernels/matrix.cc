#include "kernels/matrix.h"

#include <cerrno>
#include <sys/mman.h>
#include <utility>

#include "core/bytes.h"
#include "core/check.h"
#include "kernels/tile_layout.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

float number_at(const std::byte* data, FloatType type, std::size_t index) {
  switch (type) {
    case FloatType::kF32:
      return load<float>(data + 4 * index);
    case FloatType::kF16:
      return f16_to_float(load<std::uint16_t>(data + 2 * index));
    case FloatType::kBf16:
      return bf16_to_float(load<std::uint16_t>(data + 2 * index));
  }
  return 0;
}

// Number of column `col` and row `lane` of a dense tile.
std::size_t dense_index(FloatType type, std::size_t tile_rows, std::size_t lane, std::size_t col) {
  if (type == FloatType::kBf16) return (col / 2 * tile_rows + lane) * 2 + col % 2;
  return col * tile_rows + lane;
}

// The code of row `lane` and column `col` of the group whose codes begin at `codes`.
unsigned code_at(const std::byte* codes, const Encoding& encoding, std::size_t tile_rows,
                 std::size_t lane, std::size_t col) {
  const std::size_t vector = 4 * tile_rows;
  const std::size_t quad = col % kBlockColumns / 4;
  const std::byte* plane = codes + col / kBlockColumns * vector * encoding.bits;
  const BitPlanes planes = bit_planes(encoding.bits);
  unsigned code = 0;
  for (std::size_t p = 0, shift = 0; p < planes.count; ++p) {
    const std::size_t bits = planes.bits[p], quads = 8 / bits;
    const auto byte = std::to_integer<unsigned>(plane[quad / quads * vector + 4 * lane + col % 4]);
    code |= ((byte >> (quad % quads * bits)) & ((1U << bits) - 1)) << shift;
    shift += bits;
    plane += vector * bits;
  }
  return code;
}

}  // namespace

Result<Buffer> Buffer::allocate(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno(errno, "no memory for weights or activations");
  if (bytes >= kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = bytes;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void unpack_row(const Matrix& matrix, std::size_t part, std::size_t row, float* out) {
  EXO_CHECK(part < matrix.part_rows.size() && row < matrix.part_rows[part]);
  std::size_t tile = row / matrix.tile_rows;
  if (matrix.interleaved) {
    tile = 2 * tile + part;
  } else {
    for (std::size_t p = 0; p < part; ++p) tile += matrix.part_tiles[p];
  }
  const Encoding& encoding = matrix.encoding;
  const std::byte* data = matrix.tile(tile);
  const std::size_t lane = row % matrix.tile_rows;
  if (encoding.kind == Encoding::Kind::kDense) {
    for (std::size_t col = 0; col < matrix.cols; ++col) {
      out[col] =
          number_at(data, encoding.type, dense_index(encoding.type, matrix.tile_rows, lane, col));
    }
    return;
  }
  const TileLayout layout = tile_layout(encoding, matrix.cols, matrix.tile_rows);
  const bool has_bias = encoding.kind == Encoding::Kind::kAffine;
  const float zero = has_bias ? 0.0F : static_cast<float>(1U << (encoding.bits - 1));
  for (std::size_t col = 0; col < matrix.cols; ++col) {
    const std::size_t group = col / encoding.group_size;
    const std::byte* header = data + layout.header_at(group);
    const float scale = number_at(header, encoding.type, lane);
    const float bias = has_bias ? number_at(header, encoding.type, matrix.tile_rows + lane) : 0.0F;
    const unsigned code = code_at(data + layout.codes_at(group), encoding, matrix.tile_rows, lane,
                                  col % encoding.group_size);
    out[col] = has_bias ? scale * static_cast<float>(code) + bias
                        : scale * (static_cast<float>(code) - zero);
  }
}

}  // namespace exo::kernels
