#include "engine/tokenizer.h"

#include <array>
#include <charconv>
#include <utility>

#include "core/utf8.h"
#include "engine/rust_text.h"

namespace exo::engine {
namespace {

constexpr std::uint32_t kAdded = 1, kSpecial = 2;

// GPT-2's alphabet backwards: the byte that a code point stands for. Source: gguf.md 5.3.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      code_points_[byte] = printable ? byte : next++;
    }
  }
  // 0..255, or -1 for a code point outside of the alphabet.
  int byte_of(char32_t code_point) const {
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (code_points_[byte] == code_point) return static_cast<int>(byte);
    }
    return -1;
  }

 private:
  std::array<char32_t, 256> code_points_;
};

// The code point at `*at` of valid UTF-8; moves `*at` behind it.
char32_t next_code_point(std::string_view text, std::size_t* at) {
  const auto lead = static_cast<unsigned char>(text[*at]);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    value = value << 6 | (static_cast<unsigned char>(text[*at + i]) & 0x3FU);
  *at += length;
  return value;
}

std::string byte_level_bytes(std::string_view token) {
  static const ByteAlphabet alphabet;
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t begin = at;
    const int byte = alphabet.byte_of(next_code_point(token, &at));
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      bytes += token.substr(begin, at - begin);
    }
  }
  return bytes;
}

std::string sentence_piece_bytes(std::string_view token) {
  unsigned byte = 0;
  if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    if (error == std::errc() && end == token.data() + 5)
      return std::string(1, static_cast<char>(byte));
  }
  constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
  std::string text(token);
  for (std::size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos; ++at)
    text.replace(at, kSpace.size(), " ");
  return text;
}

}  // namespace

struct Tokenizer::State {
  ExoTokenizer* handle = nullptr;
  DecoderKind kind = DecoderKind::kOther;
  ~State() { exo_tokenizer_free(handle); }
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::open(std::string_view tokenizer_json) {
  ExoText error{};
  auto state = std::make_unique<State>();
  state->handle = exo_tokenizer_new(tokenizer_json.data(), tokenizer_json.size(), &error);
  if (state->handle == nullptr) {
    return fail(ErrorCode::kInvalidInput, "the tokenizer cannot be read: " + take_text(error));
  }
  constexpr std::array kKinds = {DecoderKind::kByteLevel, DecoderKind::kSentencePiece,
                                 DecoderKind::kSentencePieceStrip, DecoderKind::kOther};
  state->kind = kKinds[exo_tokenizer_decoder(state->handle) % kKinds.size()];
  return Tokenizer(std::move(state));
}

Result<std::vector<std::uint32_t>> Tokenizer::encode(std::string_view text) const {
  ExoText error{};
  ExoIds ids{};
  if (!exo_tokenizer_encode(state_->handle, text.data(), text.size(), &ids, &error))
    return rust_error(error);
  std::vector<std::uint32_t> result(ids.data, ids.data + ids.size);
  exo_ids_free(ids);
  return result;
}

Result<std::string> Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special) const {
  ExoText error{}, text{};
  if (!exo_tokenizer_decode(state_->handle, ids.data(), ids.size(), skip_special, &text, &error))
    return rust_error(error);
  return take_text(text);
}

std::size_t Tokenizer::size() const { return exo_tokenizer_size(state_->handle); }

std::optional<std::uint32_t> Tokenizer::id_of(std::string_view token) const {
  std::uint32_t id = 0;
  return exo_tokenizer_id(state_->handle, token.data(), token.size(), &id) ? std::optional(id)
                                                                           : std::nullopt;
}

std::optional<std::string> Tokenizer::text_of(std::uint32_t id) const {
  ExoText text{};
  return exo_tokenizer_text(state_->handle, id, &text) ? std::optional(take_text(text))
                                                       : std::nullopt;
}

bool Tokenizer::is_added(std::uint32_t id) const {
  return (exo_tokenizer_flags(state_->handle, id) & kAdded) != 0;
}
bool Tokenizer::is_special(std::uint32_t id) const {
  return (exo_tokenizer_flags(state_->handle, id) & kSpecial) != 0;
}
DecoderKind Tokenizer::decoder_kind() const { return state_->kind; }

std::string Tokenizer::bytes_of(std::uint32_t id) const {
  const auto token = text_of(id);
  if (!token) return {};
  switch (state_->kind) {
    case DecoderKind::kByteLevel:
      return is_added(id) ? *token : byte_level_bytes(*token);
    case DecoderKind::kSentencePiece:
    case DecoderKind::kSentencePieceStrip:
      return sentence_piece_bytes(*token);  // its decoder makes no exception for added tokens
    case DecoderKind::kOther:
      return is_added(id) ? *token
                          : decode(std::span(&id, 1), /*skip_special=*/false).value_or(*token);
  }
  return {};
}

}  // namespace exo::engine
