#include "engine/detokenizer.h"

#include "core/utf8.h"

namespace exo::engine {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool keep_special)
    : tokenizer_(&tokenizer), keep_special_(keep_special) {}

std::string Detokenizer::push(std::uint32_t id) {
  if (!keep_special_ && tokenizer_->is_special(id)) return {};
  if (tokenizer_->decoder_kind() == DecoderKind::kOther) return push_whole_line(id);
  std::string bytes = tokenizer_->bytes_of(id);
  if (at_start_ && tokenizer_->decoder_kind() == DecoderKind::kSentencePieceStrip &&
      bytes.starts_with(' '))
    bytes.erase(0, 1);
  if (!bytes.empty()) at_start_ = false;
  pending_ += bytes;
  Utf8Split split = split_utf8(pending_);
  pending_.erase(0, pending_.size() - split.pending);
  return std::move(split.emit);
}

// Decoders that look at their neighbours: the line is decoded again, and what it gained is the new
// text.
std::string Detokenizer::push_whole_line(std::uint32_t id) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  line_.push_back(id);
  std::string text = tokenizer_->decode(line_, /*skip_special=*/false).value_or(line_text_);
  if (text.ends_with(kReplacement))
    return {};  // perhaps an incomplete character: wait for the next token
  std::string gained =
      text.starts_with(line_text_) ? text.substr(line_text_.size()) : std::string();
  line_text_ = std::move(text);
  if (gained.ends_with('\n')) {
    line_.clear();
    line_text_.clear();
  }
  return gained;
}

std::string Detokenizer::finish() {
  std::string rest = replace_invalid_utf8(pending_);
  pending_.clear();
  if (!line_.empty()) {
    const std::string text = tokenizer_->decode(line_, /*skip_special=*/false).value_or("");
    if (text.starts_with(line_text_)) rest += text.substr(line_text_.size());
    line_.clear();
    line_text_.clear();
  }
  return rest;
}

}  // namespace exo::engine
