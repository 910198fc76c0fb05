#include "models/gguf_tokenizer.h"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/strings.h"
#include "core/utf8.h"

namespace exo::models {
namespace {

enum TokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// The regexes of gguf.md 5.3, by its ids. W, C, Q, U, L are spelt out.
#define EXO_W R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define EXO_C R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define EXO_Q R"([^\r\n\p{L}\p{N}]?)"
#define EXO_U R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define EXO_L R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define EXO_G R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
// K2's letters: U and L without Han. Negative look-ahead takes the place of the class intersection.
#define EXO_UK R"((?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))"
#define EXO_LK R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))"

using Regexes = std::vector<std::string_view>;

Regexes regexes_of(std::string_view id) {
  if (id == "A") return {EXO_C "|" EXO_Q R"(\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" EXO_W};
  if (id == "B") return {EXO_C "|" EXO_Q R"(\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" EXO_W};
  if (id == "C35")
    return {EXO_C "|" EXO_Q R"([\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" EXO_W};
  if (id == "O") {
    return {EXO_Q EXO_U "*" EXO_L "+" EXO_C "?|" EXO_Q EXO_U "+" EXO_L "*" EXO_C
                        "?|"
                        R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" EXO_W};
  }
  if (id == "T") {
    return {EXO_Q EXO_U "*" EXO_L "+|" EXO_Q EXO_U "+" EXO_L
                        R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" EXO_W};
  }
  if (id == "D3") {
    return {
        R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" EXO_W};
  }
  if (id == "K2") {
    return {R"(\p{Han}+|)" EXO_Q EXO_UK "*" EXO_LK "+" EXO_C "?|" EXO_Q EXO_UK "+" EXO_LK "*" EXO_C
            R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" EXO_W};
  }
  if (id == "G") return {EXO_G};
  if (id == "S") return {R"(\p{N})", EXO_G};
  if (id == "DC") {
    return {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
            R"([\x{4e00}-\x{9fa5}\x{0800}-\x{4e00}\x{ac00}-\x{d7ff}]+)", R"(\p{N})"};
  }
  if (id == "FA") return {R"([\p{P}\$\+<=>\^~\|`]+)", EXO_G, R"([0-9][0-9][0-9])"};
  return {R"([\p{P}\$\+<=>\^~\|]+)", EXO_G, R"(\p{N}+)", R"([0-9][0-9][0-9])"};  // X
}

struct PreTokenizer {
  std::string_view names;  // separated by spaces
  std::string_view regexes;
  bool nfc = false, ignore_merges = false, add_bos = false;
};

// The table of gguf.md 5.3.
constexpr std::array kPreTokenizers = {
    PreTokenizer{"llama-bpe llama3 llama-v3", "A", false, true, true},
    PreTokenizer{"pixtral falcon3 falcon-h1 midm-2.0 lfm2 jina-v5-nano", "A", false, true, true},
    PreTokenizer{"dbrx smaug-bpe", "A"},
    PreTokenizer{"glm4 chatglm-bpe", "A"},
    PreTokenizer{"qwen2", "B", true},
    PreTokenizer{"qwen35", "C35", true},
    PreTokenizer{"deepseek-r1-qwen megrez kormo f2llmv2 stablelm2 hunyuan solar-open grok-2", "B"},
    PreTokenizer{"gpt-4o", "O"},
    PreTokenizer{"llama4 kanana2 talkie minimax-m2", "O"},
    PreTokenizer{"tekken", "T", false, true, true},
    PreTokenizer{"deepseek-v3 joyai-llm hunyuan-dense", "D3"},
    PreTokenizer{"kimi-k2", "K2"},
    PreTokenizer{"command-r", "S", true},
    PreTokenizer{"smollm starcoder refact codeshell exaone minerva-7b mellum2", "S"},
    PreTokenizer{"gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 gigachat modern-bert "
                 "mellum a.x-4.0",
                 "G"},
    PreTokenizer{"deepseek-coder", "DC"},
    PreTokenizer{"falcon", "FA"},
    PreTokenizer{"default", "X"},
};

const PreTokenizer* pre_tokenizer_named(std::string_view name) {
  for (const PreTokenizer& entry : kPreTokenizers) {
    for (const std::string_view one : split(entry.names, ' ')) {
      if (one == name) return &entry;
    }
  }
  return nullptr;
}

struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<std::int64_t> types;  // one per token

  std::int64_t type(std::size_t id) const {
    return types.empty() ? std::int64_t{kNormal} : types[id];
  }
  bool is_used(std::size_t id) const {
    const std::int64_t t = type(id);
    return t == kNormal || t == kUnknown || t == kControl || t == kUserDefined || t == kByte;
  }
};

Result<Vocabulary> read_vocabulary(const GgufMetadata& metadata) {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  Vocabulary vocabulary;
  auto tokens = metadata.strings(kTokens);
  if (!tokens || tokens->empty())
    return fail(ErrorCode::kInvalidInput, "the GGUF file holds no vocabulary", kTokens);
  vocabulary.tokens = std::move(*tokens);
  if (metadata.has(kTypes)) {
    auto types = metadata.integers(kTypes);
    if (!types || types->size() < vocabulary.tokens.size()) {
      return fail(ErrorCode::kInvalidInput,
                  "the list of token types is shorter than the vocabulary", kTypes);
    }
    vocabulary.types = std::move(*types);
  }
  return vocabulary;
}

// {"text": id, …} of the model. A token that is no text is left out: no input can match it.
Result<Json> model_vocabulary(const Vocabulary& vocabulary) {
  std::unordered_set<std::string_view> seen;
  Json entries = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view text = vocabulary.tokens[id];
    if (!vocabulary.is_used(id) || text.empty() || !is_valid_utf8(text)) continue;
    if (!seen.insert(text).second) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("token {} has the text of another token", id),
                  "tokenizer.ggml.tokens");
    }
    entries.push_back({text, id});
  }
  return entries;
}

Result<Json> model_merges(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  const auto lines = metadata.strings(kMerges);
  if (!lines)
    return fail(ErrorCode::kInvalidInput, "the GGUF file holds no merges for its byte-level BPE",
                kMerges);
  std::unordered_set<std::string_view> known;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.is_used(id)) known.insert(vocabulary.tokens[id]);
  }
  Json merges = Json::array();
  std::string joined;
  for (const std::string_view line : *lines) {
    const std::size_t space = line.find(' ', 1);
    if (line.size() < 3 || space == std::string_view::npos) {
      return fail(ErrorCode::kInvalidInput, fmt::format("merge {} is not two parts", merges.size()),
                  kMerges);
    }
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    joined.assign(left).append(right);
    if (known.contains(left) && known.contains(right) && known.contains(joined))
      merges.push_back({left, right});
  }
  return merges;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json added = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::int64_t type = vocabulary.type(id);
    const std::string_view text = vocabulary.tokens[id];
    if ((type != kControl && type != kUnknown && type != kUserDefined) || text.empty() ||
        !is_valid_utf8(text))
      continue;
    added.push_back({{"id", id},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != kUserDefined}});
  }
  return added;
}

Json pre_tokenizer_json(const PreTokenizer& entry) {
  Json steps = Json::array();
  for (const std::string_view regex : regexes_of(entry.regexes)) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", regex}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// The vocabulary as an object. Built from pairs, since an ordered_json object looks for duplicates
// in linear time.
std::string vocabulary_text(const Json& entries) {
  std::string text = "{";
  for (const Json& entry : entries) {
    if (text.size() > 1) text += ',';
    text += dump_json(entry[0]);
    text += ':';
    text += std::to_string(entry[1].get<std::size_t>());
  }
  return text + "}";
}

}  // namespace

bool gguf_adds_bos_by_default(const GgufMetadata& metadata) {
  const std::string_view model = metadata.string("tokenizer.ggml.model").value_or("");
  if (model != "gpt2") return true;
  const PreTokenizer* entry =
      pre_tokenizer_named(metadata.string("tokenizer.ggml.pre").value_or("default"));
  return entry != nullptr && entry->add_bos;
}

Result<std::string> tokenizer_json_from_gguf(const GgufMetadata& metadata) {
  if (const auto whole = metadata.string("tokenizer.huggingface.json"); whole && parse_json(*whole))
    return std::string(*whole);
  const std::string_view model = metadata.string("tokenizer.ggml.model").value_or("");
  if (model != "gpt2") {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer model \"{}\" is not supported yet (gpt2, byte-level BPE, is)",
                    model),
        "tokenizer.ggml.model");
  }
  const std::string_view pre = metadata.string("tokenizer.ggml.pre").value_or("default");
  const PreTokenizer* entry = pre_tokenizer_named(pre);
  if (entry == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("pre-tokenizer \"{}\" is not supported", replace_invalid_utf8(pre)),
                "tokenizer.ggml.pre");
  }
  EXO_TRY(const Vocabulary vocabulary, read_vocabulary(metadata));
  EXO_TRY(const Json entries, model_vocabulary(vocabulary));
  EXO_TRY(const Json merges, model_merges(metadata, vocabulary));
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json normalizer = entry->nfc ? Json{{"type", "NFC"}} : Json(nullptr);
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
      R"("post_processor":null,"decoder":{},"model":{{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)"
      R"("ignore_merges":{},"vocab":{},"merges":{}}}}})",
      dump_json(added_tokens(vocabulary)), dump_json(normalizer),
      dump_json(pre_tokenizer_json(*entry)), dump_json(byte_level), entry->ignore_merges,
      vocabulary_text(entries), dump_json(merges));
}

#undef EXO_W
#undef EXO_C
#undef EXO_Q
#undef EXO_U
#undef EXO_L
#undef EXO_G
#undef EXO_UK
#undef EXO_LK

}  // namespace exo::models
