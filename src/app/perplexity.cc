// exo perplexity: how well a model expects a text.
#include "engine/perplexity.h"

#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/model_access.h"
#include "app/progress.h"
#include "core/file.h"
#include "core/json.h"
#include "core/utf8.h"

namespace exo::app {
namespace {

constexpr std::size_t kMaxTextBytes = 1 << 30;

struct PerplexityFlags {
  std::string model, file;
  std::size_t window = 512;
  bool as_json = false;
};

struct TokenizedText {
  std::size_t bytes = 0;
  std::vector<std::uint32_t> ids = {};
};
Result<TokenizedText> read_text(const models::TokenizerSource& source, const std::string& file) {
  EXO_TRY(const std::string text, read_file(file, kMaxTextBytes));
  if (!is_valid_utf8(text)) return fail(ErrorCode::kInvalidInput, "the text is not UTF-8", file);
  EXO_TRY(const engine::Tokenizer tokenizer, load_tokenizer(source));
  TokenizedText tokenized{.bytes = text.size()};
  EXO_TRY(tokenized.ids, tokenizer.encode(text));
  return tokenized;
}

void print(const PerplexityFlags& flags, const Context& context, std::size_t tokens,
           const engine::Perplexity& result, bool has_first) {
  if (flags.as_json) {
    fmt::print("{}\n", pretty_json({{"tokens", tokens},
                                    {"scored", result.scored},
                                    {"window", flags.window},
                                    {"bos", has_first},
                                    {"precision", context.settings.precision},
                                    {"negative_log_likelihood", result.negative_log_likelihood},
                                    {"perplexity", result.value()}}));
    return;
  }
  fmt::print(
      "perplexity {:.4f}   mean -ln p {:.6f}   {} of {} tokens scored, windows of {}{}, {} "
      "precision\n",
      result.value(), result.negative_log_likelihood, result.scored, tokens, flags.window,
      has_first ? " with a first token" : "", context.settings.precision);
}

Result<void> measure(const Context& context, const PerplexityFlags& flags) {
  EXO_TRY(const auto source, find_tokenizer(context, flags.model));
  EXO_TRY(const models::TokenizerFiles files, source->tokenizer());
  EXO_TRY(const TokenizedText text, read_text(*source, flags.file));
  EXO_TRY(const LocalModel local, load_model(context, flags.model));
  const auto first = files.add_bos ? files.bos_token_id : std::optional<std::uint32_t>();
  engine::Perplexity result;
  {
    ProgressBar bar("reading " + flags.file);
    EXO_TRY(result,
            engine::measure_perplexity(*local.model, text.ids,
                                       {.window = flags.window,
                                        .first = first,
                                        .progress = [&](std::size_t done, std::size_t total) {
                                          bar.update(done * text.bytes / total, text.bytes);
                                        }}));
  }
  print(flags, context, text.ids.size(), result, first.has_value());
  return {};
}

}  // namespace

void add_perplexity(CommandTree& tree) {
  auto flags = std::make_shared<PerplexityFlags>();
  Invocation& invocation = tree.invocation();
  tree.add("perplexity", "Measure how well a model expects a text")
      .required("MODEL", flags->model, "a model of the store, a .gguf file or a directory")
      .required("TEXTFILE", flags->file, "a UTF-8 text")
      .count("--window", flags->window, {2, std::size_t{1} << 20}, "tokens read at a time")
      .flag("--json", flags->as_json, "as a JSON object")
      .settings({"threads", "cpus", "cpu-isa", "cpu-precision"})
      .footer(
          "The text is cut into windows, each read by itself; every token but the first of a "
          "window "
          "is scored.\nWhere the model wants a first token (BOS), each window begins with it.\n\n"
          "Examples:\n"
          "  exo perplexity smollm2 book.txt\n"
          "  exo perplexity model.gguf book.txt --cpu-precision exact --json")
      .runs([&invocation, flags] {
        const auto context = open_context(invocation);
        if (!context) return report(context.error());
        const auto done = measure(*context, *flags);
        return done ? 0 : report(done.error());
      });
}

}  // namespace exo::app
