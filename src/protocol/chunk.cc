// Chunk ⇄ JSON.
#include "protocol/chunk.h"

#include <array>

#include "core/overloaded.h"
#include "protocol/fields.h"

namespace exo::protocol {
namespace {

constexpr std::array kReasons = {FinishReason::kStop, FinishReason::kLength,
                                 FinishReason::kContentFilter, FinishReason::kToolCalls};

Json to_json(const Usage& usage) {
  return Json{{"prompt_tokens", usage.prompt_tokens},
              {"completion_tokens", usage.completion_tokens},
              {"cached_tokens", usage.cached_tokens},
              {"reasoning_tokens", usage.reasoning_tokens}};
}

Json to_json(const GenerationStats& stats) {
  return Json{{"prompt_tps", stats.prompt_tps},
              {"generation_tps", stats.generation_tps},
              {"prompt_tokens", stats.prompt_tokens},
              {"generation_tokens", stats.generation_tokens},
              {"peak_memory_bytes", stats.peak_memory_bytes},
              {"prefix_cache_hit", stats.prefix_cache_hit}};
}

// The bytes go as numbers: a JSON string could not hold a part of a character.
Json to_json(const TokenLogprob& logprob) {
  Json bytes = Json::array();
  for (const char byte : logprob.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return Json{{"token", logprob.token}, {"bytes", std::move(bytes)}, {"logprob", logprob.logprob}};
}

Json to_json(const TokenChunk::Entry& entry) {
  Json top = Json::array();
  for (const TokenLogprob& logprob : entry.top) top.push_back(to_json(logprob));
  return Json{{"chosen", to_json(entry.chosen)}, {"top", std::move(top)}};
}

Result<char> byte_from(const Json& json) {
  std::uint64_t byte = 0;
  EXO_TRY(read_value(json, "bytes", byte));
  if (byte > 255) return wrong("bytes", "a list of numbers from 0 to 255");
  return static_cast<char>(byte);
}

Result<TokenLogprob> logprob_from(const Json& json) {
  EXO_TRY(check_object(json, "logprobs"));
  TokenLogprob logprob;
  std::vector<char> bytes;
  EXO_TRY(need_field(json, "token", logprob.token));
  EXO_TRY(read_list(json, "bytes", bytes, byte_from));
  EXO_TRY(need_field(json, "logprob", logprob.logprob));
  logprob.bytes.assign(bytes.begin(), bytes.end());
  return logprob;
}

Result<TokenChunk::Entry> entry_from(const Json& json) {
  EXO_TRY(check_object(json, "logprobs"));
  const auto chosen = json.find("chosen");
  if (chosen == json.end()) return wrong("chosen", "there");
  TokenChunk::Entry entry;
  EXO_TRY(entry.chosen, logprob_from(*chosen));
  EXO_TRY(read_list(json, "top", entry.top, logprob_from));
  return entry;
}

Result<PrefillProgress> prefill_from(const Json& json) {
  PrefillProgress progress;
  EXO_TRY(need_field(json, "processed_tokens", progress.processed_tokens));
  EXO_TRY(need_field(json, "total_tokens", progress.total_tokens));
  return progress;
}

Result<TokenChunk> token_from(const Json& json) {
  TokenChunk token;
  EXO_TRY(need_field(json, "text", token.text));
  EXO_TRY(read_field(json, "is_thinking", token.is_thinking));
  EXO_TRY(read_list(json, "logprobs", token.logprobs, entry_from));
  return token;
}

Result<FinishReason> reason_from(const Json& json) {
  std::string text;
  EXO_TRY(need_field(json, "reason", text));
  for (const FinishReason reason : kReasons) {
    if (name(reason) == text) return reason;
  }
  return wrong("reason", "a known reason");
}

Result<Usage> usage_from(const Json& json) {
  EXO_TRY(check_object(json, "usage"));
  Usage usage;
  EXO_TRY(read_field(json, "prompt_tokens", usage.prompt_tokens));
  EXO_TRY(read_field(json, "completion_tokens", usage.completion_tokens));
  EXO_TRY(read_field(json, "cached_tokens", usage.cached_tokens));
  EXO_TRY(read_field(json, "reasoning_tokens", usage.reasoning_tokens));
  return usage;
}

Result<GenerationStats> stats_from(const Json& json) {
  EXO_TRY(check_object(json, "stats"));
  GenerationStats stats;
  EXO_TRY(read_field(json, "prompt_tps", stats.prompt_tps));
  EXO_TRY(read_field(json, "generation_tps", stats.generation_tps));
  EXO_TRY(read_field(json, "prompt_tokens", stats.prompt_tokens));
  EXO_TRY(read_field(json, "generation_tokens", stats.generation_tokens));
  EXO_TRY(read_field(json, "peak_memory_bytes", stats.peak_memory_bytes));
  EXO_TRY(read_field(json, "prefix_cache_hit", stats.prefix_cache_hit));
  return stats;
}

Result<FinishChunk> finish_from(const Json& json) {
  FinishChunk finish;
  EXO_TRY(finish.reason, reason_from(json));
  EXO_TRY(read_field(json, "stop_sequence", finish.stop_sequence));
  EXO_TRY(read_field(json, "cancelled", finish.cancelled));
  if (const auto usage = json.find("usage"); usage != json.end()) {
    EXO_TRY(finish.usage, usage_from(*usage));
  }
  if (const auto stats = json.find("stats"); stats != json.end()) {
    EXO_TRY(finish.stats, stats_from(*stats));
  }
  return finish;
}

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContentFilter:
      return "content_filter";
    case FinishReason::kToolCalls:
      return "tool_calls";
  }
  return "stop";
}

Json to_json(const Chunk& chunk) {
  return std::visit(
      Overloaded{
          [](const PrefillProgress& progress) {
            return Json{{"PrefillProgress", Json{{"processed_tokens", progress.processed_tokens},
                                                 {"total_tokens", progress.total_tokens}}}};
          },
          [](const TokenChunk& token) {
            Json body{{"text", token.text}, {"is_thinking", token.is_thinking}};
            if (!token.logprobs.empty()) {
              Json entries = Json::array();
              for (const TokenChunk::Entry& entry : token.logprobs)
                entries.push_back(to_json(entry));
              body["logprobs"] = std::move(entries);
            }
            return Json{{"TokenChunk", std::move(body)}};
          },
          [](const FinishChunk& finish) {
            Json body{{"reason", std::string(name(finish.reason))}};
            put_if(body, "stop_sequence", finish.stop_sequence);
            body["cancelled"] = finish.cancelled;
            body["usage"] = to_json(finish.usage);
            body["stats"] = to_json(finish.stats);
            return Json{{"FinishChunk", std::move(body)}};
          },
          [](const ErrorChunk& error) { return Json{{"ErrorChunk", error_to_json(error.error)}}; }},
      chunk);
}

Result<Chunk> chunk_from(const Json& json) {
  EXO_TRY(const Variant variant, read_variant(json, "chunk"));
  const auto& [type, body] = variant;
  if (type == "PrefillProgress") return prefill_from(*body);
  if (type == "TokenChunk") return token_from(*body);
  if (type == "FinishChunk") return finish_from(*body);
  if (type == "ErrorChunk") {
    ErrorChunk chunk;
    EXO_TRY(chunk.error, error_from_json(*body));
    return chunk;
  }
  return wrong("chunk", "of a known type");
}

}  // namespace exo::protocol
