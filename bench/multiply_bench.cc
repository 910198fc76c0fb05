// Matrix times one vector, the product that decoding is made of: for every encoding its rate out of
// the caches, and from memory in turns with plain reading.
//
// usage: multiply_bench [THREADS] [NAME-PART]
#include "kernels/multiply.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "kernels/bandwidth.h"
#include "kernels/pack.h"

namespace {

using namespace exo::kernels;
using Kind = Encoding::Kind;
using Scales = Encoding::Scales;
using Clock = std::chrono::steady_clock;

struct Named {
  const char* name;
  Encoding encoding;
};
constexpr Encoding affine(std::uint8_t bits, std::uint16_t group) {
  return {.kind = Kind::kAffine, .type = FloatType::kBf16, .bits = bits, .group_size = group};
}
constexpr Encoding with_f16(Kind kind, std::uint8_t bits) {
  return {.kind = kind, .type = FloatType::kF16, .bits = bits, .group_size = 32};
}
constexpr Encoding scaled(Kind kind, std::uint8_t bits, std::uint16_t group, Scales scales) {
  return {.kind = kind, .bits = bits, .group_size = group, .scales = scales};
}
constexpr Named kEncodings[] = {
    {"affine 2/64", affine(2, 64)},
    {"affine 3/64", affine(3, 64)},
    {"affine 4/32", affine(4, 32)},
    {"affine 4/64", affine(4, 64)},
    {"affine 4/128", affine(4, 128)},
    {"affine 5/64", affine(5, 64)},
    {"affine 6/64", affine(6, 64)},
    {"affine 8/32", affine(8, 32)},
    {"affine 8/64", affine(8, 64)},
    {"Q4_0", with_f16(Kind::kSymmetric, 4)},
    {"Q4_1", with_f16(Kind::kAffine, 4)},
    {"Q5_0", with_f16(Kind::kSymmetric, 5)},
    {"Q5_1", with_f16(Kind::kAffine, 5)},
    {"Q8_0", with_f16(Kind::kSymmetric, 8)},
    {"Q2_K", scaled(Kind::kAffine, 2, 16, Scales::kTwoLevel)},
    {"Q3_K", scaled(Kind::kSymmetric, 3, 16, Scales::kTwoLevel)},
    {"Q4_K", scaled(Kind::kAffine, 4, 32, Scales::kTwoLevel)},
    {"Q5_K", scaled(Kind::kAffine, 5, 32, Scales::kTwoLevel)},
    {"Q6_K", scaled(Kind::kSymmetric, 6, 16, Scales::kTwoLevel)},
    {"IQ4_NL", with_f16(Kind::kNonlinear, 4)},
    {"IQ4_XS", scaled(Kind::kNonlinear, 4, 32, Scales::kTwoLevel)},
    {"mxfp4", scaled(Kind::kFloat4, 4, 32, Scales::kE8m0)},
    {"nvfp4", scaled(Kind::kFloat4, 4, 16, Scales::kE4m3)},
    {"mxfp8", scaled(Kind::kFloat8, 8, 32, Scales::kE8m0)},
    {"F8 squares", {.kind = Kind::kFloat8, .type = FloatType::kF32, .bits = 8, .group_size = 128}},
    {"bf16", {.kind = Kind::kDense, .type = FloatType::kBf16}},
    {"f16", {.kind = Kind::kDense, .type = FloatType::kF16}},
};

constexpr std::size_t kCols = 3072;

// Bytes of tiles per second, over all passes together.
double rate(const Matrix& matrix, ThreadPool& pool, int passes) {
  std::vector<float> x(kCols, 0.5F), y(matrix.rows);
  Activations activations;
  prepare(activations, x.data(), 1, kCols, kCols, matrix.encoding, Precision::kFast, pool);
  const auto start = Clock::now();
  for (int pass = 0; pass < passes; ++pass)
    multiply(matrix, activations, y.data(), matrix.rows, pool);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return static_cast<double>(matrix.tiles * matrix.tile_bytes) * passes / seconds.count();
}

Matrix tiles_of(const Encoding& encoding, std::size_t bytes, ThreadPool& pool) {
  const std::size_t tile = packed_bytes(encoding, 16, kCols);
  Matrix matrix = zero_matrix(encoding, std::max<std::size_t>(1, bytes / tile) * 16, kCols).value();
  // Touched, or every page would be the one page of zeros.
  pool.parallel_for(matrix.data.size() / 64, 1 << 14, [&](std::size_t begin, std::size_t end) {
    std::fill(matrix.data.data() + begin * 64, matrix.data.data() + end * 64, std::byte{0x11});
  });
  return matrix;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const std::string only = argc > 2 ? argv[2] : "";
  ThreadPool pool({.threads = threads});
  ReadBandwidth bandwidth = ReadBandwidth::make(pool).value();
  fmt::print("{:<14} {:>12} {:>12} {:>12} {:>7}\n", "encoding", "cache GB/s", "memory GB/s",
             "read GB/s", "share");
  for (const auto& [name, encoding] : kEncodings) {
    if (!std::string_view(name).contains(only)) continue;
    const Matrix small = tiles_of(encoding, threads * (std::size_t{256} << 10), pool),
                 large = tiles_of(encoding, std::size_t{512} << 20, pool);
    double cached = 0, streamed = 0, read = 0;
    rate(large, pool, 1);
    for (int turn = 0; turn < 5; ++turn) {
      cached = std::max(cached, rate(small, pool, 200));
      streamed = std::max(streamed, rate(large, pool, 4));
      read = std::max(read, bandwidth.measure(4));
    }
    fmt::print("{:<14} {:>12.1f} {:>12.1f} {:>12.1f} {:>6.0f}%\n", name, cached * 1e-9,
               streamed * 1e-9, read * 1e-9, 100 * streamed / read);
    std::fflush(stdout);
  }
}
