// The pool: a gate that opens for a region and closes behind it. Workers enter while it is open; a
// worker that the system runs too late finds it closed and has missed nothing that was left to do.
#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/mutex.h"
#include "kernels/cpu_limits.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace exo::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;
// How long an idle worker spins before it parks: longer than the gaps between the regions of one
// token, shorter than anybody notices on an idle machine.
constexpr std::chrono::microseconds kSpinTime{100};
constexpr int kPausesPerLook = 64;  // between two looks at the clock, or two yields

#if defined(__x86_64__)
void pause() { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
void pause() { asm volatile("yield"); }
#else
void pause() {}
#endif

// Spins until `done`, leaving the CPU now and then: the thread waited for may need it.
template <typename Done>
void spin_until(bool crowded, Done done) {
  for (int pauses = 0; !done(); ++pauses) {
    if (crowded || pauses % kPausesPerLook == kPausesPerLook - 1) {
      std::this_thread::yield();
    } else {
      pause();
    }
  }
}

// Binds the calling thread; a CPU that the system refuses leaves it as it is.
void bind_to_cpu([[maybe_unused]] int cpu) {
#if defined(__linux__)
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
#endif
}

}  // namespace

std::size_t default_thread_count() {
  const std::vector<int> cpus = allowed_cpus();
  std::size_t count = cpus.empty() ? std::thread::hardware_concurrency()
                                   : count_physical_cores(cpus, "/sys/devices/system/cpu");
  if (const auto quota = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup")) {
    count =
        std::min(count, static_cast<std::size_t>(*quota));  // a part of a CPU would be throttled
  }
  return std::max<std::size_t>(count, 1);
}

namespace {

// The gate's value: the region's number, whether it is open, how many workers are inside.
constexpr std::uint64_t kOpen = std::uint64_t{1} << 20, kInside = kOpen - 1;
constexpr std::uint64_t region_of(std::uint64_t gate) { return gate / (2 * kOpen); }

}  // namespace

struct ThreadPool::State {
  alignas(kCacheLine) std::atomic<std::uint64_t> gate = 0;
  // Written by the caller while the gate is closed and nobody inside, read by those who have
  // entered.
  const FunctionRef<void(std::size_t)>* body = nullptr;
  std::size_t size = 1;
  bool crowded = false;  // more workers than CPUs: spinning keeps others from working
  std::atomic<bool> stopping = false;

  alignas(kCacheLine) std::atomic<std::size_t> unfinished = 0;  // of run()
  alignas(kCacheLine) std::atomic<std::size_t> next_chunk = 0;
  alignas(kCacheLine) std::atomic<std::size_t> arrived = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> phase = 0;  // of the barrier

  // Parking. `sleepers` and `gate` are sequentially consistent there: either the caller sees a
  // sleeper, or the sleeper sees the new region before it waits.
  alignas(kCacheLine) std::atomic<std::size_t> sleepers = 0;
  Mutex mutex;
  ConditionVariable wake;
  std::vector<std::jthread> threads;

  // To the next region; `open` is kOpen, or 0 where there is nothing to enter for.
  void advance_gate(std::uint64_t open) {
    const std::uint64_t next = region_of(gate.load(std::memory_order_relaxed)) + 1;
    gate.store(next * 2 * kOpen + open, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    const MutexLock lock(mutex);
    wake.notify_all();
  }

  void close_gate() {
    std::uint64_t now = gate.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    spin_until(crowded, [&] {
      if ((now & kInside) == 0) return true;
      now = gate.load(std::memory_order_acquire);
      return (now & kInside) == 0;
    });
  }

  // Whether the caller's region `region` was still open; then this worker is inside.
  bool enter(std::uint64_t region) {
    std::uint64_t now = gate.load(std::memory_order_acquire);
    while ((now & kOpen) != 0 && region_of(now) == region) {
      if (gate.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }

  void leave() { gate.fetch_sub(1, std::memory_order_release); }

  bool spin_for_region(std::uint64_t seen) const {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int pauses = 0; pauses < kPausesPerLook; ++pauses) {
        if (region_of(gate.load(std::memory_order_acquire)) != seen) return true;
        pause();
      }
      if (crowded) std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
  }

  void park_until_region(std::uint64_t seen) EXO_EXCLUDES(mutex) {
    mutex.lock();
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (region_of(gate.load(std::memory_order_seq_cst)) == seen) wake.wait(mutex);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
    mutex.unlock();
  }

  void work(std::size_t worker) {
    std::uint64_t seen = 0;
    while (!stopping.load(std::memory_order_acquire)) {
      if (!spin_for_region(seen)) park_until_region(seen);
      seen = region_of(gate.load(std::memory_order_acquire));
      if (!enter(seen)) continue;
      (*body)(worker);
      leave();
    }
  }

  // Runs `share` on the caller and on every worker that comes while the caller is at it.
  void run_with_helpers(FunctionRef<void(std::size_t)> share) {
    body = &share;
    advance_gate(kOpen);
    share(0);
    close_gate();
  }
};

ThreadPool::ThreadPool(ThreadPoolOptions options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  const std::size_t wanted = options.threads > 0 ? options.threads : default_thread_count();
  const std::size_t cpus = options.cpus.empty() ? allowed_cpus().size() : options.cpus.size();
  const auto bind = [list = std::move(options.cpus)](std::size_t worker) {
    if (!list.empty()) bind_to_cpu(list[worker % list.size()]);
  };
  state.crowded = cpus > 0 && wanted > cpus;
  state.threads.reserve(wanted - 1);
  try {
    for (std::size_t worker = 1; worker < wanted; ++worker) {
      state.threads.emplace_back([&state, bind, worker] {
        bind(worker);
        state.work(worker);
      });
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
    // The system allows no more threads: the pool works with those it got.
  }
  state.size = state.threads.size() + 1;
  bind(0);
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_release);
  state_->advance_gate(0);
  state_->threads.clear();  // joins
}

std::size_t ThreadPool::size() const { return state_->size; }

void ThreadPool::run(FunctionRef<void(std::size_t worker)> body) {
  State& state = *state_;
  if (state.size == 1) return body(0);
  state.unfinished.store(state.size, std::memory_order_relaxed);
  state.run_with_helpers([&](std::size_t worker) {
    body(worker);
    state.unfinished.fetch_sub(1, std::memory_order_release);
    if (worker != 0) return;
    spin_until(state.crowded,
               [&] { return state.unfinished.load(std::memory_order_acquire) == 0; });
  });
}

void ThreadPool::parallel_for(std::size_t count, std::size_t grain,
                              FunctionRef<void(std::size_t begin, std::size_t end)> body) {
  EXO_CHECK(grain > 0);
  State& state = *state_;
  if (state.size == 1 || count <= grain) {
    for (std::size_t begin = 0; begin < count; begin += std::min(grain, count - begin)) {
      body(begin, begin + std::min(grain, count - begin));
    }
    return;
  }
  const std::size_t chunks = count / grain + (count % grain != 0 ? 1 : 0);
  state.next_chunk.store(0, std::memory_order_relaxed);
  state.run_with_helpers([&](std::size_t) {
    for (;;) {
      const std::size_t chunk = state.next_chunk.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunks) return;
      const std::size_t begin = chunk * grain;
      body(begin, begin + std::min(grain, count - begin));
    }
  });
}

void ThreadPool::barrier() {
  State& state = *state_;
  if (state.size == 1) return;
  // No worker can advance the phase before this one has arrived, so the value read here is current.
  const std::uint64_t phase = state.phase.load(std::memory_order_relaxed);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == state.size) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.phase.store(phase + 1, std::memory_order_release);
    return;
  }
  spin_until(state.crowded, [&] { return state.phase.load(std::memory_order_acquire) != phase; });
}

}  // namespace exo::kernels
