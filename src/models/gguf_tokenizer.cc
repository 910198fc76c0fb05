#include "models/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "models/gguf_sentencepiece.h"
#include "models/gguf_vocabulary.h"

namespace exo::models {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

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

// Byte-level BPE, gguf.md 5.3.
Result<std::string> byte_level_json(const GgufMetadata& metadata) {
  const std::string_view pre = metadata.string("tokenizer.ggml.pre").value_or("default");
  const PreTokenizer* entry = pre_tokenizer_named(pre);
  if (entry == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("pre-tokenizer \"{}\" is not supported", replace_invalid_utf8(pre)),
                "tokenizer.ggml.pre");
  }
  EXO_TRY(const GgufVocabulary vocabulary, read_gguf_vocabulary(metadata));
  const auto text_of = [&vocabulary](std::size_t id) { return vocabulary.tokens[id]; };
  EXO_TRY(const std::string entries, vocabulary_json(vocabulary, text_of));
  EXO_TRY(const Json merges, gguf_merges_json(metadata, vocabulary));
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
      dump_json(added_tokens_json(vocabulary, text_of)), dump_json(normalizer),
      dump_json(pre_tokenizer_json(*entry)), dump_json(byte_level), entry->ignore_merges, entries,
      dump_json(merges));
}

void read_special_tokens(const GgufMetadata& metadata, TokenizerFiles& files) {
  const auto tokens = metadata.strings(kTokens).value_or(std::vector<std::string_view>{});
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kVariables = {
      {{"bos", "bos_token"},
       {"eos", "eos_token"},
       {"unknown", "unk_token"},
       {"padding", "pad_token"},
       {"seperator", "sep_token"},
       {"mask", "mask_token"}}};
  for (const auto& [key, variable] : kVariables) {
    const auto id = metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", key));
    if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= tokens.size()) continue;
    files.special_tokens.emplace(variable,
                                 replace_invalid_utf8(tokens[static_cast<std::size_t>(*id)]));
    if (variable == "bos_token") files.bos_token_id = static_cast<std::uint32_t>(*id);
  }
  files.add_bos = files.bos_token_id.has_value() && gguf_adds_bos(metadata);
}

void read_templates(const GgufMetadata& metadata, TokenizerFiles& files) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  const auto add = [&](std::string name, const std::string& key) {
    const auto text = metadata.string(key);
    // A short word is the name of a template that the reference has built in, not Jinja.
    if (text && text->contains('{') && is_valid_utf8(*text))
      files.chat_templates.push_back({std::move(name), std::string(*text)});
  };
  add("default", std::string(kKey));
  for (const std::string& key : metadata.keys()) {
    if (key.starts_with(std::string(kKey) + ".")) add(key.substr(kKey.size() + 1), key);
  }
}

}  // namespace

bool gguf_adds_bos(const GgufMetadata& metadata) {
  const std::string_view model = metadata.string("tokenizer.ggml.model").value_or("");
  if (model == "gemma4") return true;
  if (const auto said = metadata.boolean("tokenizer.ggml.add_bos_token")) return *said;
  if (model != "gpt2") return true;
  const PreTokenizer* entry =
      pre_tokenizer_named(metadata.string("tokenizer.ggml.pre").value_or("default"));
  return entry != nullptr && entry->add_bos;
}

Result<std::string> tokenizer_json_from_gguf(const GgufMetadata& metadata) {
  if (const auto whole = metadata.string("tokenizer.huggingface.json"); whole && parse_json(*whole))
    return std::string(*whole);
  const std::string_view model = metadata.string("tokenizer.ggml.model").value_or("");
  if (model == "llama") return sentencepiece_json_from_gguf(metadata);
  if (model == "gemma4") return gemma4_json_from_gguf(metadata);
  if (model == "gpt2") return byte_level_json(metadata);
  return fail(ErrorCode::kUnsupported,
              fmt::format("tokenizer model \"{}\" is not supported (gpt2, llama and gemma4 are)",
                          replace_invalid_utf8(model)),
              "tokenizer.ggml.model");
}

TokenizerFiles gguf_tokenizer_files(const GgufMetadata& metadata) {
  TokenizerFiles files;
  read_special_tokens(metadata, files);
  read_templates(metadata, files);
  return files;
}

bool gguf_has_token(const GgufMetadata& metadata, std::string_view text) {
  const auto tokens = metadata.strings(kTokens);
  return tokens && std::ranges::find(*tokens, text) != tokens->end();
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
