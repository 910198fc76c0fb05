// What attention and parallel regions cost: decode per position, prefill in GFLOP/s, a region in
// ns.
//   attention_bench [instruction set]
#include "kernels/attention.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/core.h>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/bandwidth.h"
#include "kernels/isa.h"
#include "kernels/thread_pool.h"

namespace {

using namespace exo::kernels;

struct Model {
  const char* name;
  std::size_t heads, kv_heads, head_dim;
};
constexpr Model kModels[] = {{"smollm2-135m", 9, 3, 64}, {"llama-8b", 32, 8, 128}};

// Seconds of one call, the best of several batches.
template <typename Call>
double best_seconds(Call call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int batch = 0; batch < 9; ++batch) {
    const auto start = Clock::now();
    int calls = 0;
    do call(), ++calls;
    while (Clock::now() - start < std::chrono::milliseconds(20));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / calls);
  }
  return best;
}

// A cache with zeros, whose cost is that of any numbers.
struct Sequence {
  Sequence(const Model& model, std::size_t positions)
      : row(model.heads * model.head_dim),
        keys(model.kv_heads * positions * model.head_dim * 2),
        values(keys.size()),
        q(positions * row, 0.5F),
        out(positions * row),
        view{.keys = keys.data(),
             .values = values.data(),
             .kv_heads = model.kv_heads,
             .head_dim = model.head_dim,
             .capacity = positions} {}

  std::size_t row;
  std::vector<std::byte> keys, values;
  std::vector<float> q, out;
  KvView view;
};

void bench_decode(const Model& model, ThreadPool& pool) {
  for (const std::size_t positions : {1, 100, 512, 4096}) {
    Sequence s(model, positions);
    const double seconds = best_seconds([&] {
      attend(s.view, {.heads = model.heads, .first = positions - 1, .scale = 0.125F}, s.q.data(),
             s.row, s.out.data(), s.row, pool);
    });
    fmt::print("{:12} decode  {} threads, {:5} positions: {:8.2f} us, {:6.2f} ns/position\n",
               model.name, pool.size(), positions, seconds * 1e6,
               seconds * 1e9 / static_cast<double>(positions));
  }
}

void bench_prefill(const Model& model, ThreadPool& pool) {
  for (const std::size_t positions : {32, 512, 2048}) {
    Sequence s(model, positions);
    const double seconds = best_seconds([&] {
      attend(s.view, {.heads = model.heads, .count = positions, .scale = 0.125F}, s.q.data(), s.row,
             s.out.data(), s.row, pool);
    });
    const auto n = static_cast<double>(positions);
    const double flops = 4 * n * (n + 1) / 2 * static_cast<double>(model.heads * model.head_dim);
    fmt::print("{:12} prefill {} threads, {:5} tokens:    {:8.1f} us, {:6.1f} GFLOP/s\n",
               model.name, pool.size(), positions, seconds * 1e6, flops / seconds * 1e-9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() > 1) {
    const auto isa = isa_from(arguments[1]);
    if (!isa || !set_isa(*isa)) return EXIT_FAILURE;
  }
  fmt::print("instruction set {}\n", name(active_isa()));
  for (const std::size_t threads : {1, 2}) {
    ThreadPool pool({.threads = threads});
    const double region = best_seconds([&] { pool.run([](std::size_t) {}); });
    const auto bandwidth = measure_read_bandwidth(pool);
    fmt::print("{} threads: region {:.0f} ns, memory {:.1f} GB/s\n", threads, region * 1e9,
               bandwidth.value_or(0) * 1e-9);
    for (const Model& model : kModels) {
      bench_decode(model, pool);
      bench_prefill(model, pool);
    }
  }
  return EXIT_SUCCESS;
}
