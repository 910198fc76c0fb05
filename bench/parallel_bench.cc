// One model on two ranks that are processes with one thread on a core each, against one process
// with two threads: what splitting costs where both "machines" are this one.
//
// usage: parallel_bench MODEL [TOKENS] [DELAY_US …]
#include "engine/parallel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "comm/comm.h"
#include "comm/delayed_channel.h"
#include "comm/shared_memory.h"
#include "engine/decoder_spec.h"

namespace {

using namespace exo;
using comm::ProcessGroup;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPrompt = 64;

[[noreturn]] void stop(const Error& error) {
  fmt::print(stderr, "parallel_bench: {}\n", to_string(error));
  std::_Exit(1);
}

template <typename T>
T value_of(Result<T> result) {
  if (!result) stop(result.error());
  return std::move(*result);
}

// Tokens per second behind a short prompt; the best of three series.
double decode_rate(engine::Model& model, std::size_t tokens) {
  std::vector<std::uint32_t> prompt(kPrompt, 1000 % model.info().vocab_size);
  double best = 0;
  for (int series = 0; series < 3; ++series) {
    const auto sequence = model.make_sequence();
    auto logits = value_of(model.decode(*sequence, prompt));
    const auto start = Clock::now();
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto id = static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
      logits = value_of(model.decode(*sequence, std::span(&id, 1)));
    }
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, static_cast<double>(tokens) / seconds.count());
  }
  return best;
}

struct Way {
  std::string name;
  bool tensor = false, shared = false;
  long delay_us = 0;
};

// Runs `work` in a process of its own and gives the number that it writes.
double in_child(const std::function<double()>& work) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    const double result = work();
    std::_Exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  double result = 0;
  close(ends[1]);
  if (read(ends[0], &result, sizeof result) != sizeof result) result = 0;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return result;
}

double alone(const std::filesystem::path& path, std::size_t threads, std::size_t tokens) {
  kernels::ThreadPool pool({.threads = threads});
  const auto checkpoint = value_of(models::open_checkpoint(path));
  const auto model = value_of(engine::Model::load(*checkpoint, pool, {}));
  return decode_rate(*model, tokens);
}

// With a delay both ranks are in reach of one another by memory that delivers late.
ProcessGroup connect(const Way& way, std::size_t rank, std::vector<comm::GroupListener>& listeners,
                     comm::GroupOptions options,
                     std::array<std::unique_ptr<comm::Channel>, 2>& delayed) {
  if (way.delay_us == 0) {
    options.rank = rank;
    return value_of(comm::form_group(std::move(listeners[rank]), options));
  }
  std::vector<std::unique_ptr<comm::Channel>> channels(2);
  channels[1 - rank] =
      value_of(comm::delay(std::move(delayed[rank]), std::chrono::microseconds(way.delay_us)));
  return value_of(ProcessGroup::make(rank, std::move(channels)));
}

double two_ranks(const Way& way, const std::filesystem::path& path, std::size_t tokens,
                 const std::filesystem::path& directory) {
  comm::GroupOptions options{.identity = {.group = "bench"}};
  comm::fill_random(options.identity.secret);
  std::vector<comm::GroupListener> listeners;
  for (int rank = 0; rank < 2; ++rank) {
    listeners.push_back(value_of(comm::GroupListener::open("127.0.0.1", directory)));
    options.members.push_back({.address = "127.0.0.1", .port = listeners.back().port()});
    if (way.shared) options.members.back().socket = listeners.back().socket();
  }
  std::array<std::unique_ptr<comm::Channel>, 2> delayed;
  if (way.delay_us > 0) {
    auto [first, second] = value_of(comm::shared_memory_pair());
    delayed = {std::move(first), std::move(second)};
  }
  const auto run = [&](int rank) -> double {
    kernels::ThreadPool pool({.threads = 1, .cpus = {rank}});
    const auto checkpoint = value_of(models::open_checkpoint(path));
    const std::size_t layers = value_of(engine::decoder_spec(checkpoint->config())).layers.size();
    const engine::Layout layout =
        way.tensor ? engine::tensor_layout(layers, 2) : engine::pipeline_layout(layers, 2);
    ProcessGroup group = connect(way, static_cast<std::size_t>(rank), listeners, options, delayed);
    if (rank == 1) {
      const auto followed = engine::follow(*checkpoint, pool, {}, std::move(group), layout);
      if (!followed) stop(followed.error());
      return 0;
    }
    const auto model =
        value_of(engine::load_leader(*checkpoint, pool, {}, std::move(group), layout));
    return decode_rate(*model, tokens);
  };
  const pid_t follower = fork();
  if (follower == 0) {
    delayed[0].reset();
    run(1);
    std::_Exit(0);
  }
  const double rate = in_child([&] {
    delayed[1].reset();
    return run(0);
  });
  waitpid(follower, nullptr, 0);
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: parallel_bench MODEL [TOKENS] [DELAY_US …]\n");
    return 2;
  }
  const std::filesystem::path path = argv[1];
  const std::size_t tokens = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 64;
  std::vector<Way> ways = {{"tensor, shared memory", true, true},
                           {"tensor, sealed TCP", true, false},
                           {"pipeline, shared memory", false, true},
                           {"pipeline, sealed TCP", false, false}};
  for (int i = 3; i < argc; ++i)
    for (const bool tensor : {true, false})
      ways.push_back({fmt::format("{}, {} us away", tensor ? "tensor" : "pipeline", argv[i]),
                      tensor, false, std::atol(argv[i])});
  std::string directory = "/tmp/exo-bench-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;

  constexpr int kRounds = 3;
  double one = 0, two = 0;
  std::map<std::string, double> best;
  for (int round = 0; round < kRounds; ++round) {
    one = std::max(one, in_child([&] { return alone(path, 1, tokens); }));
    two = std::max(two, in_child([&] { return alone(path, 2, tokens); }));
    for (const Way& way : ways)
      best[way.name] = std::max(best[way.name], two_ranks(way, path, tokens, directory));
  }
  std::filesystem::remove_all(directory);
  fmt::print("{:<28} {:>8} {:>12} {:>12}\n", "", "tok/s", "of 2 threads", "of 1 thread");
  const auto print = [&](const std::string& name, double rate) {
    fmt::print("{:<28} {:>8.1f} {:>12.2f} {:>12.2f}\n", name, rate, rate / two, rate / one);
  };
  print("one process, 1 thread", one);
  print("one process, 2 threads", two);
  for (const Way& way : ways) print(way.name, best[way.name]);
}
