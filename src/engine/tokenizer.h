// Text ⇄ ids, over the `tokenizers` crate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "models/checkpoint.h"

namespace exo::engine {

// How the pieces of a vocabulary become bytes; chosen by the decoder of tokenizer.json,
// models.md 5.11.
enum class DecoderKind : std::uint8_t { kByteLevel, kSentencePiece, kSentencePieceStrip, kOther };

// Immutable; thread-safe.
class Tokenizer {
 public:
  // Errors: kInvalidInput: not a tokenizer document (the library's message).
  static Result<Tokenizer> open(std::string_view tokenizer_json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // No special tokens are added; special text inside maps to its ids. `text` is UTF-8. Errors:
  // kInvalidInput.
  Result<std::vector<std::uint32_t>> encode(std::string_view text) const;
  // One-shot decoding of all ids as UTF-8 with U+FFFD; ids beyond the vocabulary decode to nothing.
  Result<std::string> decode(std::span<const std::uint32_t> ids, bool skip_special) const;

  std::size_t size() const;                                          // ids are below it
  std::optional<std::uint32_t> id_of(std::string_view token) const;  // by the vocabulary's text
  std::optional<std::string> text_of(std::uint32_t id) const;        // the vocabulary's text
  bool is_special(std::uint32_t id) const;
  bool is_added(std::uint32_t id) const;
  // The raw bytes that the token stands for; may be no whole character. Nothing beyond the
  // vocabulary.
  std::string bytes_of(std::uint32_t id) const;
  DecoderKind decoder_kind() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace exo::engine
