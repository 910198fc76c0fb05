// What this machine can do at best, measured: the yardsticks of `exo bench` and `exo doctor`.
#pragma once

#include <cstddef>

#include "core/result.h"
#include "kernels/multiply.h"
#include "kernels/thread_pool.h"

namespace exo::kernels {

// Bytes per second at which `pool` reads memory that is in no cache; best of `repeats` passes over
// `bytes`. Errors: kNoSpace.
Result<double> measure_read_bandwidth(ThreadPool& pool, std::size_t bytes = std::size_t{512} << 20,
                                      int repeats = 5);

// Multiply-adds per second of the product of many rows of activations with tiles of `encoding` that
// stay in the caches: what prefill could reach; best of `repeats`. Errors: kNoSpace.
Result<double> measure_arithmetic(ThreadPool& pool, const Encoding& encoding, Precision precision,
                                  int repeats = 5);

}  // namespace exo::kernels
