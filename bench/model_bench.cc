// What a whole model does on this machine: prefill and decode in tokens per second, beside the
// share of the read bandwidth that decode reaches.
//   model_bench MODEL [threads …]         MODEL: a .gguf file or a directory
#include "engine/model.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fmt/core.h>
#include <span>
#include <string>
#include <vector>

#include "kernels/bandwidth.h"

namespace {

using namespace exo;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPrompt = 512, kGenerate = 64;
constexpr int kRounds = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void die(const Error& error) {
  fmt::print(stderr, "{}\n", to_string(error));
  std::exit(1);
}

template <typename T>
T value_or_die(Result<T> result) {
  if (!result) die(result.error());
  return std::move(*result);
}

std::vector<std::uint32_t> some_ids(std::size_t count, std::size_t vocab_size) {
  std::vector<std::uint32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i)
    ids[i] = static_cast<std::uint32_t>((i * 7919 + 13) % vocab_size);
  return ids;
}

void bench(const char* path, std::size_t threads) {
  kernels::ThreadPool pool({.threads = threads});
  const auto start = Clock::now();
  const auto checkpoint = value_or_die(models::open_checkpoint(path));
  const auto model = value_or_die(engine::Model::load(*checkpoint, pool, {}));
  const double load = seconds_since(start);

  const auto prompt = some_ids(kPrompt, model->info().vocab_size);
  double prefill = 1e9, decode = 1e9, bandwidth = 0;
  for (int round = 0; round < kRounds; ++round) {
    bandwidth = std::max(
        bandwidth, value_or_die(kernels::measure_read_bandwidth(pool, std::size_t{256} << 20, 1)));
    const auto sequence = model->make_sequence();
    const auto begin = Clock::now();
    if (auto done = model->prefill(*sequence, prompt); !done) die(done.error());
    prefill = std::min(prefill, seconds_since(begin));

    const auto fresh = model->make_sequence();
    const auto first = Clock::now();
    for (std::size_t i = 0; i < kGenerate; ++i)
      if (auto logits = model->decode(*fresh, std::span(prompt).subspan(i, 1)); !logits)
        die(logits.error());
    decode = std::min(decode, seconds_since(first));
  }
  const double rate = kGenerate / decode;
  const double read = rate * static_cast<double>(model->info().bytes_per_token);
  fmt::print(
      "{} threads: load {:.3f} s, prefill {:.0f} tok/s, decode {:.1f} tok/s = {:.1f} GB/s of "
      "{:.1f} "
      "({:.0f} %)\n",
      threads, load, kPrompt / prefill, rate, read / 1e9, bandwidth / 1e9, 100 * read / bandwidth);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: model_bench MODEL [threads ...]\n");
    return 2;
  }
  if (argc == 2)
    for (const std::size_t threads : {1, 2}) bench(argv[1], threads);
  for (int i = 2; i < argc; ++i) bench(argv[1], std::strtoul(argv[i], nullptr, 10));
  return 0;
}
