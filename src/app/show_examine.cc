// What exo show finds out.
#include <utility>

#include "app/model_access.h"
#include "app/process.h"
#include "app/show.h"
#include "core/clock.h"

namespace exo::app {
namespace {

std::string kind_of(const engine::Tokenizer& tokenizer) {
  switch (tokenizer.decoder_kind()) {
    case engine::DecoderKind::kByteLevel:
      return "byte-level";
    case engine::DecoderKind::kSentencePiece:
    case engine::DecoderKind::kSentencePieceStrip:
      return "SentencePiece";
    case engine::DecoderKind::kOther:
      return "other";
  }
  std::unreachable();
}

Result<ShownTokenizer> examine_tokenizer(const models::TokenizerSource& source) {
  ShownTokenizer shown;
  EXO_TRY(shown.files, source.tokenizer());
  const SteadyClock clock;
  const std::uint64_t before = anonymous_bytes();
  const auto started = clock.now();
  EXO_TRY(const engine::Tokenizer tokenizer, load_tokenizer(source));
  shown.load_s = seconds_between(started, clock.now());
  const std::uint64_t after = anonymous_bytes();
  shown.memory_bytes = after > before ? after - before : 0;
  shown.tokens = tokenizer.size();
  shown.kind = kind_of(tokenizer);
  return shown;
}

ShownWeights examine_weights(const models::Checkpoint& checkpoint,
                             const engine::LoadOptions& options) {
  ShownWeights shown{.config = checkpoint.config(),
                     .bytes = checkpoint.weight_bytes(),
                     .tensors = checkpoint.tensors()};
  auto needed = engine::footprint(checkpoint, options);
  if (needed) {
    shown.footprint = std::move(*needed);
  } else {
    shown.problem = to_string(needed.error());
  }
  return shown;
}

}  // namespace

Result<ShownModel> examine_model(const std::filesystem::path& path,
                                 const engine::LoadOptions& options) {
  ShownModel shown{.path = path};
  const auto checkpoint = models::open_checkpoint(path);
  if (checkpoint) {
    shown.weights = examine_weights(**checkpoint, options);
  } else {
    shown.weights_problem = to_string(checkpoint.error());
  }
  const auto source = models::open_tokenizer_source(path);
  auto tokenizer = source ? examine_tokenizer(**source)
                          : Result<ShownTokenizer>(std::unexpected(source.error()));
  if (tokenizer) {
    shown.tokenizer = std::move(*tokenizer);
  } else {
    shown.tokenizer_problem = to_string(tokenizer.error());
  }
  // A vocabulary by itself is worth showing; neither is what the first error says.
  if (!checkpoint && !shown.tokenizer) return std::unexpected(checkpoint.error());
  return shown;
}

}  // namespace exo::app
