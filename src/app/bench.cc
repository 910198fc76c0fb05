#include "app/bench.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
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
  std::string synthetic, quantization, write;
  std::size_t layers = 0;
  std::vector<std::size_t> threads;
  std::size_t prompt = 512, generate = 64;
  std::size_t repeats = 5;
  bool as_json = false;
  bool here = false;  // the child: measure in this process
};

bool is_synthetic(const BenchFlags& flags) { return !flags.synthetic.empty(); }

SyntheticOptions synthetic_options(const BenchFlags& flags) {
  SyntheticOptions options{.config = flags.synthetic, .layers = flags.layers};
  if (!flags.quantization.empty()) options.quantization = flags.quantization;
  return options;
}

// What the child measures: a path, or the flags that make the model.
std::vector<std::string> model_arguments(const BenchFlags& flags,
                                         const std::filesystem::path& model) {
  if (!is_synthetic(flags)) return {model};
  const SyntheticOptions options = synthetic_options(flags);
  std::vector<std::string> arguments = {"--synthetic", options.config, "--quantization",
                                        options.quantization};
  if (options.layers > 0)
    arguments.insert(arguments.end(), {"--layers", std::to_string(options.layers)});
  return arguments;
}

// One thread count, in a child so that nothing of an earlier run is in its memory.
Result<BenchResult> measure_in_child(const BenchFlags& flags, const std::filesystem::path& model,
                                     const Settings& settings, std::size_t threads) {
  std::string output;
  std::vector<std::string> arguments = {program_path(),
                                        "bench",
                                        "--here",
                                        "--threads",
                                        std::to_string(threads),
                                        "--prompt",
                                        std::to_string(flags.prompt),
                                        "--generate",
                                        std::to_string(flags.generate),
                                        "--repeats",
                                        std::to_string(flags.repeats)};
  std::ranges::move(model_arguments(flags, model), std::back_inserter(arguments));
  SubprocessOptions options{.arguments = std::move(arguments),
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
  const auto result = measure(
      {.model = flags.model,
       .synthetic = is_synthetic(flags) ? std::optional(synthetic_options(flags)) : std::nullopt,
       .threads = flags.threads.front(),
       .prompt_tokens = flags.prompt,
       .generated_tokens = flags.generate,
       .repeats = flags.repeats},
      context.settings);
  if (!result) return report(result.error());
  fmt::print("{}\n", dump_json(to_json(*result)));
  return 0;
}

// Errors: kInvalidInput: flags that do not go together.
Result<void> check_flags(const BenchFlags& flags) {
  if (flags.model.empty() && !is_synthetic(flags)) {
    return fail(ErrorCode::kInvalidInput,
                "name a model, or give --synthetic CONFIG.json to measure a random one");
  }
  if (!flags.model.empty() && is_synthetic(flags))
    return fail(ErrorCode::kInvalidInput, "give either a model or --synthetic, not both");
  if (!is_synthetic(flags) &&
      (flags.layers > 0 || !flags.quantization.empty() || !flags.write.empty())) {
    return fail(ErrorCode::kInvalidInput,
                "--layers, --quantization and --write go with --synthetic CONFIG.json");
  }
  if (is_synthetic(flags)) {
    EXO_TRY(make_synthetic(synthetic_options(flags)));
  }
  return {};
}

int write_model(const BenchFlags& flags) {
  const auto checkpoint = make_synthetic(synthetic_options(flags));
  if (!checkpoint) return report(checkpoint.error());
  const auto written = write_synthetic(**checkpoint, flags.write);
  if (!written) return report(written.error());
  fmt::print("wrote {}\n", flags.write);
  return 0;
}

int bench_model(const Invocation& invocation, BenchFlags flags) {
  if (const auto fit = check_flags(flags); !fit) return report(fit.error());
  if (!flags.write.empty()) return write_model(flags);
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  if (flags.threads.empty()) {
    flags.threads = {context->settings.threads != 0 ? context->settings.threads
                                                    : kernels::default_thread_count()};
  }
  if (flags.here) return measure_here(flags, *context);
  const auto model =
      is_synthetic(flags) ? Result<std::filesystem::path>() : model_path(*context, flags.model);
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
          {"arithmetic_per_s", result.arithmetic_per_s},
          {"prefill_share", result.prefill_share},
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
  EXO_TRY(result.arithmetic_per_s, number_of(json, "arithmetic_per_s"));
  EXO_TRY(result.prefill_share, number_of(json, "prefill_share"));
  EXO_TRY(result.weight_bytes, whole("weight_bytes"));
  EXO_TRY(result.cache_bytes, whole("cache_bytes"));
  return result;
}

std::string bench_table(const std::vector<BenchResult>& results) {
  std::string table = fmt::format(
      "{:>7}  {:>12}  {:>12}  {:>8}  {:>11}  {:>10}  {:>11}  {:>9}  {:>6}  {:>8}  {:>6}\n",
      "threads", "prefill t/s", "decode t/s", "load s", "to 1st tok", "peak anon", "bytes/token",
      "read B/s", "share", "MAC/s", "share");
  for (const BenchResult& r : results) {
    table += fmt::format(
        "{:>7}  {:>12.1f}  {:>12.1f}  {:>8.3f}  {:>9.3f} s  {:>10}  {:>11}  {:>9}  {:>5.0f}%  "
        "{:>6.0f} G  "
        "{:>5.0f}%\n",
        r.threads, r.prefill_tokens_per_s, r.decode_tokens_per_s, r.load_s, r.first_token_s,
        human_bytes(r.peak_anonymous_bytes), human_bytes(r.bytes_per_token),
        human_bytes(static_cast<std::uint64_t>(r.bandwidth_bytes_per_s)), r.bandwidth_share * 100,
        r.arithmetic_per_s * 1e-9, r.prefill_share * 100);
  }
  return table;
}

void add_bench(CommandTree& tree) {
  auto flags = std::make_shared<BenchFlags>();
  Invocation& invocation = tree.invocation();
  constexpr std::size_t kMost = std::size_t{1} << 20;
  tree.add("bench", "Measure how fast a model runs on this machine")
      .text("MODEL", flags->model, "a model of the store, a .gguf file or a directory")
      .text("--synthetic", flags->synthetic,
            "a config.json: measure a random model of its shape instead")
      .count("--layers", flags->layers, {1, 4096}, "layers of the random model, to make it smaller")
      .text("--quantization", flags->quantization,
            "its weights: affine-4-64 (the default), affine-8-64, q8_0, q4_k, bf16, …")
      .text("--write", flags->write,
            "save the random model to this directory, as safetensors or GGUF, and measure nothing")
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
          "the first token after the prompt. The first 'share' is the part of the memory's read\n"
          "bandwidth that decoding uses, the second that of the processor's multiply-adds per "
          "second "
          "(MAC/s)\nthat the prompt uses; both are measured in the same run.\n\n"
          "Examples:\n"
          "  exo bench smollm2 --threads 1,2\n"
          "  exo bench model.gguf --prompt 2048 --generate 128 --json\n"
          "  exo bench --synthetic config.json --layers 8 --quantization q4_k")
      .runs([&invocation, flags] { return bench_model(invocation, *flags); });
}

}  // namespace exo::app
