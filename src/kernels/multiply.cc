#include "kernels/multiply.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "core/check.h"
#include "kernels/isa.h"
#include "kernels/tile_kernel.h"
#include "kernels/vector_ops.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kMaxTileRows = 16;
constexpr std::size_t kTokenBlock =
    64;  // rows of activations that stay in the L1/L2 cache while a few tiles pass

const Variants<QuantizeFn> quantize{
    .scalar = scalar::quantize_row,
    EXO_X86(.avx2 = avx2::quantize_row, .avx512 = avx512::quantize_row)};

// Tiles keep the height that they were packed with, so the kernel follows the tile, not only the
// machine.
TileKernel* kernel_for(const Matrix& matrix, Precision precision) {
  const bool fast = precision == Precision::kFast;
#if defined(__x86_64__)
  if (active_isa() >= Isa::kAvx512 && matrix.tile_rows == 16)
    return avx512::tile_kernel(matrix.encoding, fast);
  if (active_isa() >= Isa::kAvx2 && matrix.tile_rows == 8)
    return avx2::tile_kernel(matrix.encoding, fast);
#endif
  return scalar::tile_kernel(matrix.encoding, fast);
}

bool needs_codes(const Encoding& encoding, Precision precision) {
  return precision == Precision::kFast && has_integer_codes(encoding);
}

// Columns whose activations share a scale or, in f32, a sum; 0 for dense matrices.
std::size_t preparation_group(const Encoding& encoding, Precision precision) {
  return needs_codes(encoding, precision) ? activation_group(encoding) : encoding.group_size;
}

}  // namespace

struct Activations::State {
  Precision precision = Precision::kFast;
  std::size_t count = 0, cols = 0, padded_cols = 0;
  std::size_t group = 0;  // columns of an activation group, or of a weight group in exact precision
  std::size_t group_stride = 0;
  bool has_codes = false;
  Buffer storage;
  std::int8_t* q = nullptr;
  float *scale = nullptr, *sum = nullptr, *x = nullptr, *x_sum = nullptr;
  std::int32_t* code_sum = nullptr;

  void reserve(std::size_t bytes) {
    if (bytes <= storage.size()) return;
    auto grown = Buffer::allocate(bytes + bytes / 2);
    EXO_CHECK(grown.has_value());  // a few megabytes; without them nothing works
    storage = std::move(*grown);
  }

  ActivationView from(std::size_t row) const {
    ActivationView view{.q = nullptr,
                        .scale = nullptr,
                        .sum = nullptr,
                        .code_sum = nullptr,
                        .x = nullptr,
                        .x_sum = nullptr,
                        .col_stride = padded_cols,
                        .group_stride = group_stride,
                        .group_size = group};
    if (has_codes) {
      view.q = q + row * padded_cols;
      view.scale = scale + row * group_stride;
      view.sum = sum + row * group_stride;
      view.code_sum = code_sum + row * group_stride;
    } else {
      view.x = x + row * padded_cols;
      view.x_sum = x_sum + row * group_stride;
    }
    return view;
  }
};

Activations::Activations() = default;
Activations::Activations(Activations&&) noexcept = default;
Activations& Activations::operator=(Activations&&) noexcept = default;
Activations::~Activations() = default;

Activations::State& Activations::state() {
  if (!state_) state_ = std::make_unique<State>();
  return *state_;
}

const Activations::State& Activations::state() const {
  EXO_CHECK(state_ != nullptr);
  return *state_;
}

namespace {

// Copies a row, pads it with zeros and sums its groups.
void copy_row(const float* from, const Activations::State& s, std::size_t row) {
  float* to = s.x + row * s.padded_cols;
  std::memcpy(to, from, s.cols * sizeof(float));
  std::fill(to + s.cols, to + s.padded_cols, 0.0F);
  for (std::size_t g = 0; g < s.group_stride; ++g) {
    double sum = 0;
    for (std::size_t i = g * s.group; i < (g + 1) * s.group; ++i) sum += double{to[i]};
    s.x_sum[row * s.group_stride + g] = static_cast<float>(sum);
  }
}

}  // namespace

bool same_preparation(const Encoding& a, const Encoding& b, Precision precision) {
  const bool a_dense = a.kind == Encoding::Kind::kDense, b_dense = b.kind == Encoding::Kind::kDense;
  if (a_dense || b_dense) return a_dense == b_dense;
  return needs_codes(a, precision) == needs_codes(b, precision) &&
         preparation_group(a, precision) == preparation_group(b, precision);
}

void prepare(Activations& activations, const float* x, std::size_t count, std::size_t cols,
             std::size_t stride, const Encoding& encoding, Precision precision, ThreadPool& pool) {
  Activations::State& s = activations.state();
  s.precision = precision;
  s.count = count;
  s.cols = cols;
  const bool dense = encoding.kind == Encoding::Kind::kDense;
  s.padded_cols = round_up<std::size_t>(cols, dense ? 4 : kActivationPadding);
  s.has_codes = needs_codes(encoding, precision);
  s.group = dense ? s.padded_cols : preparation_group(encoding, precision);
  s.group_stride = s.padded_cols / s.group;
  // Every array begins at a cache line.
  const std::size_t numbers = round_up<std::size_t>(count * s.group_stride * 4, 64);
  if (s.has_codes) {
    const std::size_t codes = round_up<std::size_t>(count * s.padded_cols, 64);
    s.reserve(codes + 3 * numbers);
    std::byte* at = s.storage.data();
    s.q = reinterpret_cast<std::int8_t*>(at);
    s.scale = reinterpret_cast<float*>(at + codes);
    s.sum = reinterpret_cast<float*>(at + codes + numbers);
    s.code_sum = reinterpret_cast<std::int32_t*>(at + codes + 2 * numbers);
  } else {
    const std::size_t values = round_up<std::size_t>(count * s.padded_cols * 4, 64);
    s.reserve(values + numbers);
    s.x = reinterpret_cast<float*>(s.storage.data());
    s.x_sum = reinterpret_cast<float*>(s.storage.data() + values);
  }
  constexpr std::size_t kRowsPerChunk = 16;
  pool.parallel_for(count, kRowsPerChunk, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      if (!s.has_codes) {
        copy_row(x + row * stride, s, row);
        continue;
      }
      quantize(x + row * stride, s.cols, s.padded_cols, s.group,
               QuantizedRow{.q = s.q + row * s.padded_cols,
                            .scale = s.scale + row * s.group_stride,
                            .sum = s.sum + row * s.group_stride,
                            .code_sum = s.code_sum + row * s.group_stride});
    }
  });
}

namespace {

// Where a tile's results go.
struct Target {
  float* y = nullptr;  // of the tile's first row
  std::size_t stride = 0;
  std::size_t rows = 0;  // of the tile that exist
};

// One matrix of a region: its tiles are numbers [first, first + tiles) of the region's.
struct Job {
  const Matrix* matrix;
  std::span<float* const> y;
  std::span<const std::size_t> stride;
  std::size_t first;
};

Target target_of(const Job& job, std::size_t tile) {
  const Matrix& matrix = *job.matrix;
  std::size_t part = 0;
  while (tile >= matrix.part_tiles[part]) tile -= matrix.part_tiles[part++];
  const std::size_t row = tile * matrix.tile_rows;
  return {.y = job.y[part] + row,
          .stride = job.stride[part],
          .rows = std::min(matrix.tile_rows, matrix.part_rows[part] - row)};
}

void check_fits(const Matrix& matrix, const Activations::State& x) {
  EXO_CHECK(matrix.cols == x.cols && matrix.padded_cols <= x.padded_cols);
  EXO_CHECK(x.has_codes == needs_codes(matrix.encoding, x.precision));
  if (matrix.encoding.kind != Encoding::Kind::kDense)
    EXO_CHECK(x.group == preparation_group(matrix.encoding, x.precision));
}

// Several chunks per worker, so that a worker that was interrupted does not hold up the others, but
// not so many that taking one costs more than doing it.
std::size_t tile_grain(std::size_t tiles, std::size_t count, const ThreadPool& pool) {
  if (pool.size() == 1) return std::max<std::size_t>(1, count == 1 ? tiles : 4);
  const std::size_t share = tiles / (pool.size() * 6);
  return std::clamp<std::size_t>(share, 1, count == 1 ? 64 : 4);
}

using Scratch = std::array<float, kTokenBlock * kMaxTileRows>;

void store_tile(const Scratch& results, const Target& target, std::size_t first, std::size_t count,
                bool add) {
  for (std::size_t m = 0; m < count; ++m) {
    float* y = target.y + (first + m) * target.stride;
    const float* from = results.data() + m * kMaxTileRows;
    for (std::size_t r = 0; r < target.rows; ++r) y[r] = add ? y[r] + from[r] : from[r];
  }
}

void multiply_tiles(const Job& job, const Activations::State& x, std::size_t begin, std::size_t end,
                    bool add) {
  const Matrix& matrix = *job.matrix;
  const TileLayout layout = tile_layout(matrix.encoding, matrix.cols, matrix.tile_rows);
  TileKernel* const kernel = kernel_for(matrix, x.precision);
  alignas(64) Scratch results;
  for (std::size_t first = 0; first < x.count; first += kTokenBlock) {
    const std::size_t count = std::min(kTokenBlock, x.count - first);
    const ActivationView view = x.from(first);
    for (std::size_t tile = begin; tile < end; ++tile) {
      const Target target = target_of(job, tile);
      const TileView tile_view{
          .data = matrix.tile(tile), .layout = &layout, .encoding = &matrix.encoding};
      if (!add && target.rows == matrix.tile_rows) {
        kernel(tile_view, view, count, target.y + first * target.stride, target.stride);
        continue;
      }
      kernel(tile_view, view, count, results.data(), kMaxTileRows);
      store_tile(results, target, first, count, add);
    }
  }
}

void run_jobs(std::span<const Job> jobs, const Activations::State& x, bool add, ThreadPool& pool) {
  std::size_t tiles = 0;
  for (const Job& job : jobs) {
    check_fits(*job.matrix, x);
    tiles += job.matrix->tiles;
  }
  pool.parallel_for(tiles, tile_grain(tiles, x.count, pool),
                    [&](std::size_t begin, std::size_t end) {
                      for (const Job& job : jobs) {
                        const std::size_t from = std::max(begin, job.first),
                                          to = std::min(end, job.first + job.matrix->tiles);
                        if (from < to)
                          multiply_tiles(job, x, from - job.first, to - job.first, add);
                      }
                    });
}

void run_one(const Matrix& matrix, const Activations& x, float* y, std::size_t stride, bool add,
             ThreadPool& pool) {
  EXO_CHECK(matrix.part_rows.size() == 1);
  const Job job{.matrix = &matrix, .y = {&y, 1}, .stride = {&stride, 1}, .first = 0};
  run_jobs({&job, 1}, x.state(), add, pool);
}

}  // namespace

void multiply(std::span<const Product> products, const Activations& x, ThreadPool& pool) {
  constexpr std::size_t kMaxJobs = 8;
  EXO_CHECK(products.size() <= kMaxJobs);
  std::array<Job, kMaxJobs> jobs;
  std::size_t first = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Product& product = products[i];
    EXO_CHECK(!product.matrix->interleaved &&
              product.y.size() == product.matrix->part_rows.size() &&
              product.stride.size() == product.y.size());
    jobs[i] = {.matrix = product.matrix, .y = product.y, .stride = product.stride, .first = first};
    first += product.matrix->tiles;
  }
  run_jobs(std::span(jobs).first(products.size()), x.state(), /*add=*/false, pool);
}

void multiply(const Matrix& matrix, const Activations& x, float* y, std::size_t stride,
              ThreadPool& pool) {
  run_one(matrix, x, y, stride, /*add=*/false, pool);
}

void multiply_add(const Matrix& matrix, const Activations& x, float* y, std::size_t stride,
                  ThreadPool& pool) {
  run_one(matrix, x, y, stride, /*add=*/true, pool);
}

void multiply_gated(const Matrix& gate_up, Activation activation, const Activations& activations,
                    float* y, std::size_t stride, ThreadPool& pool) {
  const Activations::State& x = activations.state();
  EXO_CHECK(gate_up.interleaved);
  check_fits(gate_up, x);
  const TileLayout layout = tile_layout(gate_up.encoding, gate_up.cols, gate_up.tile_rows);
  TileKernel* const kernel = kernel_for(gate_up, x.precision);
  GatedFn* const activate = gated(activation, active_isa());
  const std::size_t pairs = gate_up.part_tiles[0];
  pool.parallel_for(
      pairs, std::max<std::size_t>(1, tile_grain(pairs, x.count, pool)),
      [&](std::size_t begin, std::size_t end) {
        alignas(64) Scratch gate, up;
        for (std::size_t first = 0; first < x.count; first += kTokenBlock) {
          const std::size_t count = std::min(kTokenBlock, x.count - first);
          const ActivationView view = x.from(first);
          for (std::size_t pair = begin; pair < end; ++pair) {
            const std::size_t row = pair * gate_up.tile_rows;
            const Target target{.y = y + row,
                                .stride = stride,
                                .rows = std::min(gate_up.tile_rows, gate_up.part_rows[0] - row)};
            kernel(
                {.data = gate_up.tile(2 * pair), .layout = &layout, .encoding = &gate_up.encoding},
                view, count, gate.data(), kMaxTileRows);
            kernel({.data = gate_up.tile(2 * pair + 1),
                    .layout = &layout,
                    .encoding = &gate_up.encoding},
                   view, count, up.data(), kMaxTileRows);
            for (std::size_t m = 0; m < count; ++m) {
              activate(gate.data() + m * kMaxTileRows, up.data() + m * kMaxTileRows,
                       target.y + (first + m) * target.stride, target.rows);
            }
          }
        }
      });
}

}  // namespace exo::kernels
