// exo logits: what a model computes, for comparison with what another program does.
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/model_access.h"
#include "app/npy.h"
#include "core/file.h"
#include "core/strings.h"

namespace exo::app {
namespace {

constexpr std::size_t kMaxIdsBytes = 64 << 20;
// Positions whose logits are held at a time: a quarter of a million tokens take a megabyte each.
constexpr std::size_t kChunk = 128;

struct LogitsOptions {
  std::string model, ids, out;
};

// "1,2,3", or "@FILE" with ids between commas and white space.
Result<std::vector<std::uint32_t>> parse_ids(const std::string& given) {
  std::string text = given;
  if (given.starts_with('@')) {
    EXO_TRY(text, read_file(given.substr(1), kMaxIdsBytes));
  }
  for (char& c : text)
    if (c == ',' || c == '\n' || c == '\t' || c == '\r') c = ' ';
  std::vector<std::uint32_t> ids;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("\"{}\" is no token id: give whole numbers, as 1,2,3", word),
                  "--ids");
    }
    ids.push_back(id);
  }
  if (ids.empty()) return fail(ErrorCode::kInvalidInput, "there are no token ids", "--ids");
  return ids;
}

Result<void> write_logits(const Context& context, const LogitsOptions& options) {
  EXO_TRY(const std::vector<std::uint32_t> ids, parse_ids(options.ids));
  EXO_TRY(const LocalModel local, load_model(context, options.model));
  EXO_TRY(NpyWriter file,
          NpyWriter::create(options.out, ids.size(), local.model->info().vocab_size));
  const auto sequence = local.model->make_sequence();
  for (std::span rest(ids); !rest.empty();) {
    const std::size_t count = std::min(kChunk, rest.size());
    EXO_TRY(const std::vector<float> logits, local.model->logits(*sequence, rest.first(count)));
    EXO_TRY(file.write(logits));
    rest = rest.subspan(count);
  }
  EXO_TRY(file.finish());
  fmt::print("{}: f32[{}, {}], {} precision\n", options.out, ids.size(),
             local.model->info().vocab_size, context.settings.precision);
  return {};
}

}  // namespace

void add_logits(CommandTree& tree) {
  auto options = std::make_shared<LogitsOptions>();
  Invocation& invocation = tree.invocation();
  tree.add("logits", "Write a model's logits for given token ids to a NumPy file")
      .required("MODEL", options->model, "a model of the store, a .gguf file or a directory")
      .required("--ids", options->ids, "token ids, as 1,2,3, or @FILE with them")
      .required("--out", options->out, "the .npy file: f32[positions, vocabulary]")
      .settings({"threads", "cpus", "cpu-isa", "cpu-precision"})
      .footer(
          "Row i holds the logits behind the first i + 1 ids. Nothing is put in front of them.\n\n"
          "Examples:\n"
          "  exo logits smollm2 --ids 1,2,3 --out logits.npy --cpu-precision exact")
      .runs([&invocation, options] {
        const auto context = open_context(invocation);
        if (!context) return report(context.error());
        const auto done = write_logits(*context, *options);
        return done ? 0 : report(done.error());
      });
}

}  // namespace exo::app
