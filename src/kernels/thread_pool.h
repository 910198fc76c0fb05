// A persistent pool for parallel regions of microseconds: workers spin for a while, then park.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/function_ref.h"

namespace exo::kernels {

struct ThreadPoolOptions {
  std::size_t threads = 0;  // 0: default_thread_count()
  // Worker i is bound to cpus[i % size], the constructing thread as worker 0; empty: not bound. A
  // CPU that the system refuses leaves its worker unbound.
  std::vector<int> cpus = {};
};

// Physical cores that this process may use: affinity mask and cgroup quota respected, at least 1.
std::size_t default_thread_count();

// The calling thread is worker 0; the pool owns the others. One region at a time, started from one
// thread.
class ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options = {});
  ~ThreadPool();

  // Workers, the caller included; fewer than asked for where the system allows no more threads.
  std::size_t size() const;

  // Runs body(worker) once on every worker and returns when all are done.
  void run(FunctionRef<void(std::size_t worker)> body);

  // Splits [0, count) into chunks of at most `grain` and hands them out to the workers as they
  // become free; a worker that the system keeps from coming delays nobody. Which worker takes which
  // chunk is not fixed, so a chunk's result must not depend on it.
  void parallel_for(std::size_t count, std::size_t grain,
                    FunctionRef<void(std::size_t begin, std::size_t end)> body);

  // Inside run(): waits until every worker has come here. Cheaper than ending the region.
  void barrier();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exo::kernels
