#include "app/bench.h"

#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/model_access.h"
#include "app/process.h"
#include "core/strings.h"
#include "core/subprocess.h"
#include "kernels/thread_pool.h"

namespace exo::app {
namespace {

struct BenchFlags {
  std::string model;
  std::vector<std::size_t> threads;
  std::size_t prompt = 512, generate = 64;
  std::size_t repeats = 5;
  bool as_json = false;
  bool here = false;  // the child: measure in this process
};

// One thread count, in a child so that nothing of an earlier run is in its memory.
Result<BenchResult> measure_in_child(const BenchFlags& flags, const std::filesystem::path& model,
                                     const Settings& settings, std::size_t threads) {
  std::string output;
  SubprocessOptions options{
      .arguments = {program_path(), "bench", model, "--here", "--threads", std::to_string(threads),
                    "--prompt", std::to_string(flags.prompt), "--generate",
                    std::to_string(flags.generate), "--repeats", std::to_string(flags.repeats)},
      .environment = runner_environment(settings),
      .on_stdout = [&](const std::string& line) { output += line + "\n"; },
      .on_stderr = {}};
  EXO_TRY(Subprocess child, Subprocess::start(std::move(options)));
  const ExitStatus status = child.wait();
  if (!status.ok()) {
    return fail(ErrorCode::kInternal, fmt::format("the measurement with {} threads ended with {}",
                                                  threads, to_string(status)));
  }
  EXO_TRY(const Json json, parse_json(output));
  return bench_result_from(json);
}

int measure_here(const BenchFlags& flags, const Context& context) {
  const auto result = measure({.model = flags.model,
                               .threads = flags.threads.front(),
                               .prompt_tokens = flags.prompt,
                               .generated_tokens = flags.generate,
                               .repeats = flags.repeats},
                              context.settings);
  if (!result) return report(result.error());
  fmt::print("{}\n", dump_json(to_json(*result)));
  return 0;
}

int bench_model(const Invocation& invocation, BenchFlags flags) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  if (flags.threads.empty()) {
    flags.threads = {context->settings.threads != 0 ? context->settings.threads
                                                    : kernels::default_thread_count()};
  }
  if (flags.here) return measure_here(flags, *context);
  const auto model = model_path(*context, flags.model);
  if (!model) return report(model.error());
  std::vector<BenchResult> results;
  for (const std::size_t threads : flags.threads) {
    if (!flags.as_json) fmt::print(stderr, "measuring with {} threads…\n", threads);
    auto result = measure_in_child(flags, *model, context->settings, threads);
    if (!result) return report(result.error());
    results.push_back(*result);
  }
  if (flags.as_json) {
    Json array = Json::array();
    for (const BenchResult& result : results) array.push_back(to_json(result));
    fmt::print("{}\n", pretty_json(array));
  } else {
    fmt::print("{}", bench_table(results));
  }
  return 0;
}

Result<double> number_of(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) {
    return fail(ErrorCode::kInternal, "the measurement lacks a number", std::string(key));
  }
  return found->get<double>();
}

}  // namespace

Json to_json(const BenchResult& result) {
  return {{"threads", result.threads},
          {"prefill_tokens_per_s", result.prefill_tokens_per_s},
          {"decode_tokens_per_s", result.decode_tokens_per_s},
          {"load_s", result.load_s},
          {"first_token_s", result.first_token_s},
          {"peak_anonymous_bytes", result.peak_anonymous_bytes},
          {"bytes_per_token", result.bytes_per_token},
          {"bandwidth_bytes_per_s", result.bandwidth_bytes_per_s},
          {"bandwidth_share", result.bandwidth_share},
          {"weight_bytes", result.weight_bytes},
          {"cache_bytes", result.cache_bytes}};
}

Result<BenchResult> bench_result_from(const Json& json) {
  if (!json.is_object()) return fail(ErrorCode::kInternal, "the measurement is no JSON object");
  const auto whole = [&](std::string_view key) -> Result<std::uint64_t> {
    EXO_TRY(const double number, number_of(json, key));
    return static_cast<std::uint64_t>(std::llround(number));
  };
  BenchResult result;
  EXO_TRY(result.threads, whole("threads"));
  EXO_TRY(result.prefill_tokens_per_s, number_of(json, "prefill_tokens_per_s"));
  EXO_TRY(result.decode_tokens_per_s, number_of(json, "decode_tokens_per_s"));
  EXO_TRY(result.load_s, number_of(json, "load_s"));
  EXO_TRY(result.first_token_s, number_of(json, "first_token_s"));
  EXO_TRY(result.peak_anonymous_bytes, whole("peak_anonymous_bytes"));
  EXO_TRY(result.bytes_per_token, whole("bytes_per_token"));
  EXO_TRY(result.bandwidth_bytes_per_s, number_of(json, "bandwidth_bytes_per_s"));
  EXO_TRY(result.bandwidth_share, number_of(json, "bandwidth_share"));
  EXO_TRY(result.weight_bytes, whole("weight_bytes"));
  EXO_TRY(result.cache_bytes, whole("cache_bytes"));
  return result;
}

std::string bench_table(const std::vector<BenchResult>& results) {
  std::string table =
      fmt::format("{:>7}  {:>12}  {:>12}  {:>8}  {:>11}  {:>10}  {:>11}  {:>9}  {:>6}\n", "threads",
                  "prefill t/s", "decode t/s", "load s", "to 1st tok", "peak anon", "bytes/token",
                  "read B/s", "share");
  for (const BenchResult& r : results) {
    table += fmt::format(
        "{:>7}  {:>12.1f}  {:>12.1f}  {:>8.3f}  {:>9.3f} s  {:>10}  {:>11}  {:>9}  {:>5.0f}%\n",
        r.threads, r.prefill_tokens_per_s, r.decode_tokens_per_s, r.load_s, r.first_token_s,
        human_bytes(r.peak_anonymous_bytes), human_bytes(r.bytes_per_token),
        human_bytes(static_cast<std::uint64_t>(r.bandwidth_bytes_per_s)), r.bandwidth_share * 100);
  }
  return table;
}

void add_bench(CommandTree& tree) {
  auto flags = std::make_shared<BenchFlags>();
  Invocation& invocation = tree.invocation();
  constexpr std::size_t kMost = std::size_t{1} << 20;
  tree.add("bench", "Measure how fast a model runs on this machine")
      .required("MODEL", flags->model, "a model of the store, a .gguf file or a directory")
      .counts("--threads", flags->threads, {1, 1024}, "thread counts to measure, as 1,2")
      .count("--prompt", flags->prompt, {1, kMost}, "tokens of the prompt")
      .count("--generate", flags->generate, {1, kMost}, "tokens to generate")
      .count("--repeats", flags->repeats, {1, 1000}, "runs, of which the best counts")
      .flag("--json", flags->as_json, "a JSON list with one object per thread count")
      .hidden_flag("--here", flags->here)
      .settings({"cpus", "cpu-isa", "cpu-precision"})
      .footer(
          "Each thread count runs in a process of its own. 'to 1st tok' runs from the start of "
          "loading to\n"
          "the first token after the prompt; 'share' is the part of the memory's read bandwidth, "
          "measured "
          "in\nthe same run, that decoding uses.\n\n"
          "Examples:\n"
          "  exo bench smollm2 --threads 1,2\n"
          "  exo bench model.gguf --prompt 2048 --generate 128 --json")
      .runs([&invocation, flags] { return bench_model(invocation, *flags); });
}

}  // namespace exo::app
