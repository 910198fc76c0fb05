// Regions, chunks and barriers, on fewer and on more threads than there are CPUs.
#include "kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <time.h>

#include "kernels/cpu_limits.h"

namespace exo::kernels {
namespace {

constexpr std::size_t kSizes[] = {1, 2, 3, 9};

// CPU seconds that this process has used.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void wait_until_parked() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(ThreadPool, RunsTheBodyOnceOnEveryWorker) {
  for (const std::size_t size : kSizes) {
    ThreadPool pool({.threads = size});
    ASSERT_EQ(pool.size(), size);
    std::vector<int> calls(size);
    for (int region = 0; region < 100; ++region) pool.run([&](std::size_t w) { ++calls[w]; });
    EXPECT_EQ(calls, std::vector<int>(size, 100)) << size;
  }
}

TEST(ThreadPool, TheCallerIsWorkerZero) {
  ThreadPool pool({.threads = 2});
  std::thread::id ids[2];
  pool.run([&](std::size_t worker) { ids[worker] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], std::this_thread::get_id());
}

TEST(ThreadPool, WritesOfARegionAreSeenByTheNext) {
  constexpr int kRegions = 100000;
  ThreadPool pool({.threads = 2});
  long values[2] = {0, 0};  // each region, a worker reads what the other wrote in the one before
  for (int region = 0; region < kRegions; ++region) {
    const std::size_t from = region % 2;
    pool.run([&](std::size_t worker) {
      if (worker == from) values[1 - from] = values[from] + 1;
    });
  }
  EXPECT_EQ(values[kRegions % 2], kRegions);
}

TEST(ThreadPool, ParallelForCoversEveryIndexOnceInChunksOfTheGrain) {
  for (const std::size_t size : kSizes) {
    ThreadPool pool({.threads = size});
    for (const std::size_t count : {0, 1, 7, 64, 1000}) {
      for (const std::size_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(count);
        std::atomic<bool> aligned = true;
        pool.parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
          if (begin % grain != 0 || end <= begin || end > begin + grain) aligned = false;
          for (std::size_t i = begin; i < end; ++i) ++hits[i];
        });
        EXPECT_TRUE(aligned) << size << ", " << count << ", " << grain;
        for (const auto& hit : hits) ASSERT_EQ(hit, 1) << size << ", " << count << ", " << grain;
      }
    }
  }
}

TEST(ThreadPool, ParallelForSurvivesTheLargestCount) {
  ThreadPool pool({.threads = 2});
  const std::size_t most = ~std::size_t{0};
  std::atomic<std::size_t> covered = 0;
  pool.parallel_for(most, most - 10,
                    [&](std::size_t begin, std::size_t end) { covered += end - begin; });
  EXPECT_EQ(covered, most);
}

TEST(ThreadPool, RegionsOfBothKindsInTurnLoseNoCall) {
  for (const std::size_t size : kSizes) {
    ThreadPool pool({.threads = size});
    std::atomic<std::size_t> calls = 0;
    std::atomic<std::size_t> chunks = 0;
    for (int region = 0; region < 2000; ++region) {
      pool.parallel_for(3, 1, [&](std::size_t, std::size_t) { ++chunks; });
      pool.run([&](std::size_t) { ++calls; });
    }
    EXPECT_EQ(calls, 2000 * size);
    EXPECT_EQ(chunks, 6000U);
  }
}

TEST(ThreadPool, ThreadsThatShareOneCpuFinishTheirRegions) {
  std::thread([] {
    ThreadPool pool({.threads = 3, .cpus = {allowed_cpus().front()}});
    std::atomic<int> chunks = 0, calls = 0;
    for (int region = 0; region < 500; ++region) {
      pool.parallel_for(2, 1, [&](std::size_t, std::size_t) { ++chunks; });
      pool.run([&](std::size_t) { pool.barrier(), ++calls; });
    }
    EXPECT_EQ(chunks, 1000);
    EXPECT_EQ(calls, 1500);
  }).join();
}

TEST(ThreadPool, NobodyPassesABarrierBeforeAllHaveCome) {
  for (const std::size_t size : kSizes) {
    ThreadPool pool({.threads = size});
    std::vector<int> steps(size);
    std::atomic<bool> together = true;
    pool.run([&](std::size_t worker) {
      for (int step = 0; step < 200; ++step) {
        steps[worker] = step;
        pool.barrier();
        for (const int other : steps) {
          if (other != step) together = false;
        }
        pool.barrier();
      }
    });
    EXPECT_TRUE(together) << size;
  }
}

TEST(ThreadPool, AParkedPoolWakesAndUsesNoCpuUntilThen) {
  ThreadPool pool({.threads = 3});
  std::atomic<int> calls = 0;
  for (int round = 0; round < 3; ++round) {
    wait_until_parked();
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LT(cpu_seconds() - before, 0.02);
    pool.run([&](std::size_t) { ++calls; });
  }
  EXPECT_EQ(calls, 9);
}

TEST(ThreadPool, DiesWhileStartingSpinningOrParked) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool starting({.threads = 3});
    ThreadPool spinning({.threads = 2});
    spinning.run([](std::size_t) {});
  }
  ThreadPool parked({.threads = 4});
  wait_until_parked();
}

TEST(ThreadPool, WorkersAreBoundToTheGivenCpus) {
  const std::vector<int> before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  std::vector<int> seen[3];
  // On a thread of its own, since worker 0 stays bound.
  std::thread([&] {
    ThreadPool pool({.threads = 3, .cpus = {before.back(), before.front()}});
    pool.run([&](std::size_t worker) { seen[worker] = allowed_cpus(); });
  }).join();
  EXPECT_EQ(seen[0], std::vector{before.back()});
  EXPECT_EQ(seen[1], std::vector{before.front()});
  EXPECT_EQ(seen[2], std::vector{before.back()});
}

TEST(ThreadPool, ACpuThatDoesNotExistBindsNothing) {
  const std::vector<int> before = allowed_cpus();
  ThreadPool pool({.threads = 2, .cpus = {-1, 1 << 20}});
  pool.run([&](std::size_t) { EXPECT_EQ(allowed_cpus(), before); });
}

TEST(DefaultThreadCount, IsBetweenOneAndTheAllowedCpus) {
  EXPECT_GE(default_thread_count(), 1U);
  EXPECT_LE(default_thread_count(), allowed_cpus().size());
}

}  // namespace
}  // namespace exo::kernels
