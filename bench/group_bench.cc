// What a process group of two processes reaches on this machine: the time of a small all-reduce,
// and the rate of a large transfer, over each transport.
//
// usage: group_bench [KIBIBYTES]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "comm/comm.h"

namespace {

using namespace exo::comm;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void stop(const exo::Error& error) {
  std::fprintf(stderr, "group_bench: %s\n", to_string(error).c_str());
  std::exit(1);
}

// Best of several series, in microseconds.
double all_reduce_us(ProcessGroup& group, std::size_t bytes) {
  constexpr int kSeries = 20, kTimes = 500;
  std::vector<float> values(bytes / sizeof(float), 1);
  double best = 1e9;
  for (int series = 0; series < kSeries; ++series) {
    const auto start = Clock::now();
    for (int i = 0; i < kTimes; ++i) {
      if (const auto done = group.all_reduce(values); !done) stop(done.error());
      std::ranges::fill(values, 1.0F);
    }
    best = std::min(best, seconds_since(start) / kTimes * 1e6);
  }
  return best;
}

// Bytes per second of 1 GB from rank 0 to rank 1.
double transfer_rate(ProcessGroup& group) {
  constexpr std::size_t kBlock = std::size_t{8} << 20, kBlocks = 128;
  std::vector<std::byte> block(kBlock);
  if (const auto done = group.barrier(); !done) stop(done.error());
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const auto done = group.rank() == 0 ? group.send(1, block) : group.receive(0, block);
    if (!done) stop(done.error());
  }
  if (const auto done = group.barrier(); !done) stop(done.error());
  return static_cast<double>(kBlock * kBlocks) / seconds_since(start);
}

struct Kind {
  const char* name;
  bool shared, sealed;
};

void measure(const Kind& kind, std::size_t bytes, const std::filesystem::path& directory) {
  GroupOptions options{.identity = {.group = "bench", .sealed = kind.sealed}};
  fill_random(options.identity.secret);
  std::vector<GroupListener> listeners;
  for (int rank = 0; rank < 2; ++rank) {
    auto listener = GroupListener::open("127.0.0.1", directory);
    if (!listener) stop(listener.error());
    options.members.push_back({.address = "127.0.0.1", .port = listener->port()});
    if (kind.shared) options.members.back().socket = listener->socket();
    listeners.push_back(std::move(*listener));
  }
  const pid_t child = fork();
  options.rank = child == 0 ? 1 : 0;
  auto group = form_group(std::move(listeners[options.rank]), options);
  if (!group) stop(group.error());
  const double microseconds = all_reduce_us(*group, bytes), rate = transfer_rate(*group);
  if (child == 0) std::_Exit(0);
  waitpid(child, nullptr, 0);
  std::printf("%-16s %12.2f %14.2f\n", kind.name, microseconds, rate * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t kibibytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 8;
  std::string directory = "/tmp/exo-bench-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  std::printf("%-16s %8zu KiB us %14s\n", "transport", kibibytes, "1 GB, GB/s");
  for (const Kind& kind : {Kind{"shared memory", true, false}, Kind{"plain TCP", false, false},
                           Kind{"sealed TCP", false, true}})
    measure(kind, kibibytes << 10, directory);
  std::filesystem::remove_all(directory);
}
