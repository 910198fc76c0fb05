#include "models/gguf_sentencepiece.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/log.h"
#include "core/utf8.h"
#include "models/gguf_vocabulary.h"

namespace exo::models {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, what a space becomes

bool is_space_run(std::string_view text) {
  return !text.empty() && text.find_first_not_of(' ') == std::string_view::npos;
}

bool names_a_byte(std::string_view text) {
  const auto is_hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') && is_hex(text[3]) &&
         is_hex(text[4]);
}

// A run of spaces that the file defines is a piece among others once its spaces are written as
// U+2581, unless a normal piece has that text already.
class PieceTexts {
 public:
  explicit PieceTexts(const GgufVocabulary& vocabulary) : vocabulary_(vocabulary) {
    std::unordered_set<std::string_view> taken;
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      const std::string_view text = vocabulary.tokens[id];
      if (vocabulary.is_used(id) && text.starts_with(kSpace)) taken.insert(text);
    }
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      const std::string_view text = vocabulary.tokens[id];
      if (vocabulary.type(id) != kUserDefined || !is_space_run(text)) continue;
      std::string written;
      for (std::size_t i = 0; i < text.size(); ++i) written += kSpace;
      if (!taken.contains(written)) runs_.emplace(id, std::move(written));
    }
  }

  std::string_view operator()(std::size_t id) const {
    const auto run = runs_.find(id);
    return run != runs_.end() ? std::string_view(run->second) : vocabulary_.tokens[id];
  }
  bool is_run(std::size_t id) const { return runs_.contains(id); }

 private:
  const GgufVocabulary& vocabulary_;
  std::unordered_map<std::size_t, std::string> runs_;
};

// What each piece is worth; nothing for those that no merge makes.
Result<std::vector<std::optional<double>>> read_scores(const GgufMetadata& metadata,
                                                       const GgufVocabulary& vocabulary,
                                                       const PieceTexts& text_of) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  const auto numbers = metadata.numbers(kScores);
  if (!numbers || numbers->size() < vocabulary.tokens.size()) {
    return fail(ErrorCode::kInvalidInput,
                "the list of scores is missing or shorter than the vocabulary", kScores);
  }
  std::vector<std::optional<double>> scores(vocabulary.tokens.size());
  bool all_equal = true;
  std::optional<double> first;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (vocabulary.type(id) == kNormal && !is_valid_utf8(vocabulary.tokens[id])) continue;
    if (text_of.is_run(id)) {
      scores[id] = std::numeric_limits<double>::infinity();  // above every normal piece
    } else if (vocabulary.type(id) == kNormal) {
      const double score = (*numbers)[id];
      if (score != score)
        return fail(ErrorCode::kInvalidInput, fmt::format("the score of token {} is NaN", id),
                    kScores);
      if (!first) first = score;
      all_equal = all_equal && score == *first;
      scores[id] = score;
    }
  }
  if (!all_equal) return scores;
  log::warn("the GGUF file's scores are all equal: tokens are merged in the order of their ids");
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (scores[id] && !text_of.is_run(id)) scores[id] = -static_cast<double>(id);
  }
  return scores;
}

struct Merge {
  double score;
  std::string_view left, right;
};

// Every way to put a piece together from two others, best first. SentencePiece joins the pair whose
// whole scores highest; a list of merges in that order chooses the same pairs (gguf.md 5.4).
std::vector<Merge> merges_of(const std::vector<std::optional<double>>& scores,
                             const PieceTexts& text_of) {
  std::unordered_set<std::string_view> pieces;
  pieces.reserve(scores.size());
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (scores[id]) pieces.insert(text_of(id));
  }
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!scores[id]) continue;
    const std::string_view text = text_of(id);
    for (std::size_t at = 1; at < text.size(); ++at) {
      if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;  // within a character
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (pieces.contains(left) && pieces.contains(right))
        merges.push_back({.score = *scores[id], .left = left, .right = right});
    }
  }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left, a.right) > std::tie(b.score, b.left, b.right);
  });
  return merges;
}

std::string merges_json(const std::vector<Merge>& merges) {
  std::string text = "[";
  for (const Merge& merge : merges) {
    if (text.size() > 1) text += ',';
    text += '[';
    text += dump_json(Json(merge.left));
    text += ',';
    text += dump_json(Json(merge.right));
    text += ']';
  }
  return text + "]";
}

struct TextRules {
  bool adds_space_prefix = false;
  std::optional<std::string_view> unknown;
};

Json normalizer_json(const TextRules& rules) {
  Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  if (!rules.adds_space_prefix) return replace;
  return {{"type", "Sequence"},
          {"normalizers",
           Json::array({{{"type", "Prepend"}, {"prepend", kSpace}}, std::move(replace)})}};
}

Json decoder_json(const TextRules& rules) {
  Json steps =
      Json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (rules.adds_space_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

Result<std::string> document(const GgufVocabulary& vocabulary, const PieceTexts& text_of,
                             const TextRules& rules, std::string_view merges) {
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.type(id) == kByte && !names_a_byte(vocabulary.tokens[id])) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("token {} is a byte token and names no byte", id),
                  "tokenizer.ggml.tokens");
    }
  }
  const auto text = [&text_of](std::size_t id) { return text_of(id); };
  EXO_TRY(const std::string entries, vocabulary_json(vocabulary, text));
  const Json unknown = rules.unknown ? Json(*rules.unknown) : Json(nullptr);
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":null,)"
      R"("post_processor":null,"decoder":{},"model":{{"type":"BPE","dropout":null,"unk_token":{},)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":true,)"
      R"("ignore_merges":false,"vocab":{},"merges":{}}}}})",
      dump_json(added_tokens_json(vocabulary, text)), dump_json(normalizer_json(rules)),
      dump_json(decoder_json(rules)), dump_json(unknown), entries, merges);
}

TextRules rules_of(const GgufMetadata& metadata, const GgufVocabulary& vocabulary) {
  TextRules rules;
  const std::int64_t id = metadata.integer("tokenizer.ggml.unknown_token_id").value_or(0);
  if (id >= 0 && std::cmp_less(id, vocabulary.tokens.size())) {
    const std::string_view text = vocabulary.tokens[static_cast<std::size_t>(id)];
    if (vocabulary.is_used(static_cast<std::size_t>(id)) && !text.empty() && is_valid_utf8(text))
      rules.unknown = text;
  }
  return rules;
}

}  // namespace

Result<std::string> sentencepiece_json_from_gguf(const GgufMetadata& metadata) {
  EXO_TRY(const GgufVocabulary vocabulary, read_gguf_vocabulary(metadata));
  const PieceTexts text_of(vocabulary);
  EXO_TRY(const auto scores, read_scores(metadata, vocabulary, text_of));
  TextRules rules = rules_of(metadata, vocabulary);
  rules.adds_space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  return document(vocabulary, text_of, rules, merges_json(merges_of(scores, text_of)));
}

Result<std::string> gemma4_json_from_gguf(const GgufMetadata& metadata) {
  EXO_TRY(const GgufVocabulary vocabulary, read_gguf_vocabulary(metadata));
  EXO_TRY(const Json merges, gguf_merges_json(metadata, vocabulary));
  return document(vocabulary, PieceTexts(vocabulary), rules_of(metadata, vocabulary),
                  dump_json(merges));
}

}  // namespace exo::models
