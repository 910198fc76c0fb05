// What this machine can do at best, measured: the yardsticks of `exo bench` and `exo doctor`.
#pragma once

#include <cstddef>
#include <memory>

#include "core/result.h"
#include "kernels/multiply.h"
#include "kernels/thread_pool.h"

namespace exo::kernels {

// Reads memory that is in no cache, each worker its own share. Borrows the pool.
class ReadBandwidth {
 public:
  // Errors: kNoSpace; kInvalidInput: too few bytes.
  static Result<ReadBandwidth> make(ThreadPool& pool, std::size_t bytes = std::size_t{512} << 20);
  ReadBandwidth(ReadBandwidth&&) noexcept;
  ~ReadBandwidth();

  // Bytes per second of `passes` passes together, so that a lucky moment does not count.
  double measure(int passes);

 private:
  struct State;
  explicit ReadBandwidth(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The best of several measurements.
Result<double> measure_read_bandwidth(ThreadPool& pool, std::size_t bytes = std::size_t{512} << 20,
                                      int repeats = 5);

// Multiply-adds per second of the product of many rows of activations with tiles of `encoding` that
// stay in the caches: what prefill could reach; best of `repeats`. Errors: kNoSpace.
Result<double> measure_arithmetic(ThreadPool& pool, const Encoding& encoding, Precision precision,
                                  int repeats = 5);

}  // namespace exo::kernels
