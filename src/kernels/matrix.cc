#include "kernels/matrix.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <utility>

#include "core/check.h"
#include "kernels/tile_layout.h"
#include "kernels/tile_reader.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

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
  const TileLayout layout = tile_layout(encoding, matrix.cols, matrix.tile_rows);
  const TileReader reader(matrix.tile(tile), layout, encoding);
  const std::size_t lane = row % matrix.tile_rows;
  if (encoding.kind == Encoding::Kind::kDense) {
    for (std::size_t col = 0; col < matrix.cols; ++col) out[col] = reader.number(lane, col);
    return;
  }
  for (std::size_t begin = 0; begin < matrix.cols; begin += encoding.group_size) {
    const GroupScale group = reader.scale(lane, begin / encoding.group_size);
    const std::size_t end = std::min(matrix.cols, begin + encoding.group_size);
    for (std::size_t col = begin; col < end; ++col) {
      const float product = group.scale * reader.value(lane, col);
      out[col] = has_bias(encoding) ? product + group.bias : product;
    }
  }
}

}  // namespace exo::kernels
