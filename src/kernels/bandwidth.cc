// Reading a large block of memory with every worker and a stopwatch.
#include "kernels/bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "kernels/bandwidth_parts.h"
#include "kernels/pack.h"

namespace exo::kernels {
namespace {

constexpr Variants<SumLinesFn> sum_lines{
    .scalar = scalar::sum_lines, EXO_X86(.avx2 = avx2::sum_lines, .avx512 = avx512::sum_lines)};

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::uint64_t* data) const { munmap(data, bytes); }
};

}  // namespace

struct ReadBandwidth::State {
  ThreadPool& pool;
  std::size_t share;  // bytes per worker
  std::unique_ptr<std::uint64_t, Unmap> memory;

  std::uint64_t* of(std::size_t worker) const {
    return memory.get() + worker * (share / sizeof(std::uint64_t));
  }
};

ReadBandwidth::ReadBandwidth(std::unique_ptr<State> state) : state_(std::move(state)) {}
ReadBandwidth::ReadBandwidth(ReadBandwidth&&) noexcept = default;
ReadBandwidth::~ReadBandwidth() = default;

Result<ReadBandwidth> ReadBandwidth::make(ThreadPool& pool, std::size_t bytes) {
  const std::size_t share = bytes / pool.size() / kLineBytes * kLineBytes;
  if (share == 0) return fail(ErrorCode::kInvalidInput, "too few bytes to measure a bandwidth");
  const std::size_t total = share * pool.size();
  void* const mapped =
      mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return fail(ErrorCode::kNoSpace, "not enough memory to measure its bandwidth");
  }
#if defined(MADV_HUGEPAGE)
  madvise(mapped, total, MADV_HUGEPAGE);
#endif
  auto state = std::make_unique<State>(State{
      .pool = pool, .share = share, .memory = {static_cast<std::uint64_t*>(mapped), {total}}});
  // Each worker touches what it will read: pages of one's own, not the shared page of zeros, and
  // near.
  pool.run([&](std::size_t worker) {
    std::fill_n(state->of(worker), share / sizeof(std::uint64_t), 1);
  });
  return ReadBandwidth(std::move(state));
}

double ReadBandwidth::measure(int passes) {
  const auto start = std::chrono::steady_clock::now();
  for (int pass = 0; pass < passes; ++pass) {
    state_->pool.run([&](std::size_t worker) {
      std::uint64_t* const own = state_->of(worker);
      // The sum is stored, so that no compiler leaves the reading out.
      own[0] = sum_lines(static_cast<const std::uint64_t*>(own), state_->share / kLineBytes);
    });
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(state_->share * state_->pool.size() *
                             static_cast<std::size_t>(passes)) /
         seconds.count();
}

Result<double> measure_read_bandwidth(ThreadPool& pool, std::size_t bytes, int repeats) {
  EXO_TRY(ReadBandwidth meter, ReadBandwidth::make(pool, bytes));
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) best = std::max(best, meter.measure(1));
  return best;
}

Result<double> measure_arithmetic(ThreadPool& pool, const Encoding& encoding, Precision precision,
                                  int repeats) {
  constexpr std::size_t kRows = 512, kCols = 1024, kCount = 512;
  EXO_TRY(const Matrix matrix, zero_matrix(encoding, kRows, kCols));
  std::vector<float> x(kCount * kCols), y(kCount * kRows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 251) - 125;
  Activations activations;
  prepare(activations, x.data(), kCount, kCols, kCols, encoding, precision, pool);
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    multiply(matrix, activations, y.data(), kRows, pool);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(kRows * kCols * kCount) / seconds.count());
  }
  return best;
}

}  // namespace exo::kernels
