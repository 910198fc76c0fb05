// The measurement of exo bench.
#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <thread>

#include "app/bench.h"
#include "app/model_access.h"
#include "app/process.h"
#include "core/clock.h"
#include "engine/engine.h"
#include "engine/footprint.h"
#include "engine/weight_loader.h"
#include "kernels/bandwidth.h"
#include "kernels/thread_pool.h"
#include "models/checkpoint.h"

namespace exo::app {
namespace {

constexpr int kPasses = 20;  // of half a GiB: near half a second

// Follows the peak of anonymous memory, which the system does not keep, by looking every 5 ms.
class PeakMemory {
 public:
  PeakMemory()
      : thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            look();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}

  std::uint64_t finish() {
    thread_.request_stop();
    thread_.join();
    look();
    return peak_;
  }

 private:
  void look() { peak_ = std::max(peak_.load(), anonymous_bytes()); }
  std::atomic<std::uint64_t> peak_ = 0;
  std::jthread thread_;
};

// What a token of the prompt multiplies: so many weights, most of them in this encoding.
struct Workload {
  std::size_t layer_weights = 0;
  kernels::Encoding encoding = {};
};

Result<Workload> workload_of(const models::Checkpoint& checkpoint) {
  EXO_TRY(const engine::Footprint footprint, engine::footprint(checkpoint, {}));
  Workload workload{.layer_weights = footprint.layer_weights};
  std::size_t most = 0;
  for (const engine::StoredMatrix& matrix : footprint.matrices) {
    std::size_t same = 0;
    for (const engine::StoredMatrix& other : footprint.matrices)
      if (other.format == matrix.format) same += other.rows * other.cols;
    if (same <= most) continue;
    most = same;
    EXO_TRY(workload.encoding, engine::tile_encoding(matrix.format));
  }
  return workload;
}

// Ids of an ordinary prompt are not needed: any ids cost the same. They avoid the first ones, which
// are special.
std::vector<std::uint32_t> prompt_ids(std::size_t count, std::size_t vocab_size) {
  std::vector<std::uint32_t> ids(count);
  const std::size_t first = std::min<std::size_t>(1000, vocab_size / 2);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::uint32_t>(first + i % (vocab_size - first));
  }
  return ids;
}

std::uint32_t likeliest(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Feeds the prompt and gives the first token.
Result<std::uint32_t> feed(engine::Model& model, engine::Sequence& sequence,
                           std::span<const std::uint32_t> ids) {
  while (ids.size() > engine::kPrefillChunk) {
    EXO_TRY(model.prefill(sequence, ids.first(engine::kPrefillChunk)));
    ids = ids.subspan(engine::kPrefillChunk);
  }
  EXO_TRY(const std::span<float> logits, model.decode(sequence, ids));
  return likeliest(logits);
}

struct Pass {
  double prefill_s = 0, decode_s = 0;
  std::size_t cache_bytes = 0;
};

// One prompt and its continuation, on a fresh sequence.
Result<Pass> run_pass(engine::Model& model, std::span<const std::uint32_t> prompt,
                      std::size_t generated) {
  const SteadyClock clock;
  const auto sequence = model.make_sequence();
  const auto started = clock.now();
  EXO_TRY(std::uint32_t token, feed(model, *sequence, prompt));
  const auto fed = clock.now();
  for (std::size_t i = 0; i < generated; ++i) {
    EXO_TRY(const std::span<float> logits, model.decode(*sequence, std::span(&token, 1)));
    token = likeliest(logits);
  }
  return Pass{.prefill_s = seconds_between(started, fed),
              .decode_s = seconds_between(fed, clock.now()),
              .cache_bytes = sequence->bytes()};
}

}  // namespace

Result<BenchResult> measure(const BenchOptions& options, const Settings& settings) {
  EXO_TRY(choose_isa(settings));
  const SteadyClock clock;
  PeakMemory memory;
  BenchResult result{.threads = options.threads};

  const auto started = clock.now();
  kernels::ThreadPool pool({.threads = options.threads, .cpus = settings.cpus});
  std::unique_ptr<engine::Model> model;
  Workload workload;
  {
    EXO_TRY(const auto checkpoint, options.synthetic ? make_synthetic(*options.synthetic)
                                                     : models::open_checkpoint(options.model));
    EXO_TRY(model, engine::Model::load(*checkpoint, pool, {.precision = precision_of(settings)}));
    result.load_s = seconds_between(started, clock.now());
    EXO_TRY(workload, workload_of(*checkpoint));
  }
  const auto prompt = prompt_ids(options.prompt_tokens, model->info().vocab_size);
  {
    const auto sequence = model->make_sequence();
    EXO_TRY(feed(*model, *sequence, prompt));
    result.first_token_s = seconds_between(started, clock.now());
  }

  EXO_TRY(const Pass warm_up, run_pass(*model, prompt, options.generated_tokens));
  result.cache_bytes = warm_up.cache_bytes;
  result.peak_anonymous_bytes = memory.finish();  // before the bandwidth's own buffer
  EXO_TRY(auto bandwidth, kernels::ReadBandwidth::make(pool));
  double best_prefill = warm_up.prefill_s, best_decode = warm_up.decode_s;
  // In turns and for as long, so that a busy moment of the machine meets both alike.
  for (std::size_t i = 0; i < options.repeats; ++i) {
    EXO_TRY(const Pass pass, run_pass(*model, prompt, options.generated_tokens));
    best_prefill = std::min(best_prefill, pass.prefill_s);
    best_decode = std::min(best_decode, pass.decode_s);
    result.bandwidth_bytes_per_s =
        std::max(result.bandwidth_bytes_per_s, bandwidth.measure(kPasses));
  }
  result.prefill_tokens_per_s = static_cast<double>(options.prompt_tokens) / best_prefill;
  result.decode_tokens_per_s = static_cast<double>(options.generated_tokens) / best_decode;
  result.weight_bytes = model->info().weight_bytes;
  result.bytes_per_token = model->info().bytes_per_token;
  result.bandwidth_share = static_cast<double>(result.bytes_per_token) *
                           result.decode_tokens_per_s / result.bandwidth_bytes_per_s;
  EXO_TRY(result.arithmetic_per_s,
          kernels::measure_arithmetic(pool, workload.encoding, precision_of(settings)));
  result.prefill_share = static_cast<double>(workload.layer_weights) * result.prefill_tokens_per_s /
                         result.arithmetic_per_s;
  return result;
}

}  // namespace exo::app
