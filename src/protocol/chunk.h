// What flows back from a runner for one request: progress, tokens, and exactly one terminal chunk.
// Source: api.md 3.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace exo::protocol {

enum class FinishReason : std::uint8_t { kStop, kLength, kContentFilter, kToolCalls };
std::string_view name(FinishReason reason);  // "stop", "length", …

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
  friend bool operator==(const Usage&, const Usage&) = default;
};

struct GenerationStats {
  double prompt_tps = 0,
         generation_tps = 0;  // tokens per second; 0 where nothing was measured, never infinite
  std::int64_t prompt_tokens = 0, generation_tokens = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::string prefix_cache_hit = "none";
  friend bool operator==(const GenerationStats&, const GenerationStats&) = default;
};

struct TokenLogprob {
  std::string token = {};  // the token's own text; an incomplete character shows as U+FFFD
  std::string bytes = {};  // its raw bytes
  double logprob = 0;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

// The first one says that the runner has accepted the prompt; processed_tokens is 0 then.
struct PrefillProgress {
  std::int64_t processed_tokens = 0, total_tokens = 0;
  friend bool operator==(const PrefillProgress&, const PrefillProgress&) = default;
};

// Text that became visible. With logprobs, one entry per token whose text is in it (several where
// text had been held back).
struct TokenChunk {
  struct Entry {
    TokenLogprob chosen = {};
    std::vector<TokenLogprob> top = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::string text = {};
  bool is_thinking = false;
  std::vector<Entry> logprobs = {};
  friend bool operator==(const TokenChunk&, const TokenChunk&) = default;
};

// Terminal: the end of a generation.
struct FinishChunk {
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_sequence = {};
  bool cancelled = false;
  Usage usage = {};
  GenerationStats stats = {};
  friend bool operator==(const FinishChunk&, const FinishChunk&) = default;
};

// Terminal: the generation failed.
struct ErrorChunk {
  Error error = {};
  friend bool operator==(const ErrorChunk&, const ErrorChunk&) = default;
};

using Chunk = std::variant<PrefillProgress, TokenChunk, FinishChunk, ErrorChunk>;

inline bool is_terminal(const Chunk& chunk) {
  return std::holds_alternative<FinishChunk>(chunk) || std::holds_alternative<ErrorChunk>(chunk);
}

Json to_json(const Chunk& chunk);  // {"TokenChunk": {…}}
Result<Chunk> chunk_from(const Json& json);

}  // namespace exo::protocol
