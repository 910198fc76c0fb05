// exo bench: what one model reaches on this machine, measured in a process of its own per thread
// count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/settings.h"
#include "app/synthetic.h"
#include "core/json.h"
#include "core/result.h"

namespace exo::app {

struct BenchOptions {
  std::filesystem::path model = {};  // what open_checkpoint() takes; or
  std::optional<SyntheticOptions> synthetic = {};
  std::size_t threads = 1;
  std::size_t prompt_tokens = 512, generated_tokens = 64;
  std::size_t repeats = 5;  // the best counts
};

struct BenchResult {
  std::size_t threads = 0;
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0;
  double load_s = 0;         // opening and packing
  double first_token_s = 0;  // from the start of loading to the first token after the prompt
  std::uint64_t peak_anonymous_bytes = 0;
  std::uint64_t weight_bytes = 0, cache_bytes = 0;  // what the peak should be close to
  std::uint64_t bytes_per_token = 0;
  double bandwidth_bytes_per_s = 0;
  double bandwidth_share = 0;   // bytes_per_token · decode_tokens_per_s / bandwidth_bytes_per_s
  double arithmetic_per_s = 0;  // multiply-adds that the tiles reach out of the caches
  double prefill_share = 0;     // of it, by the layers' matrices alone

  friend bool operator==(const BenchResult&, const BenchResult&) = default;
};

// Measures in this process. Errors: as open_checkpoint() and Model::load(); kContextLength.
Result<BenchResult> measure(const BenchOptions& options, const Settings& settings);

Json to_json(const BenchResult& result);
Result<BenchResult> bench_result_from(const Json& json);
std::string bench_table(const std::vector<BenchResult>& results);

}  // namespace exo::app
