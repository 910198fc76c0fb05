#include "api/chat_response.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include <nlohmann/json.hpp>

namespace exo::api {
namespace {

using protocol::FinishChunk;
using protocol::PrefillProgress;
using protocol::TokenChunk;

constexpr double kLogprobFloor = -9999;

std::string event(const Json& json) { return fmt::format("data: {}\n\n", dump_json(json)); }

Json logprob_json(const protocol::TokenLogprob& entry) {
  Json bytes = Json::array();
  for (const char byte : entry.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", entry.token},
          {"logprob", std::max(entry.logprob, kLogprobFloor)},
          {"bytes", std::move(bytes)}};
}

Json logprobs_json(const std::vector<TokenChunk::Entry>& entries) {
  Json content = Json::array();
  for (const TokenChunk::Entry& entry : entries) {
    Json item = logprob_json(entry.chosen);
    Json top = Json::array();
    for (const protocol::TokenLogprob& other : entry.top) {
      if (!std::isnan(other.logprob)) top.push_back(logprob_json(other));
    }
    item["top_logprobs"] = std::move(top);
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json usage_json(const protocol::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"audio_tokens", 0}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"audio_tokens", 0},
            {"accepted_prediction_tokens", 0},
            {"rejected_prediction_tokens", 0}}}};
}

Json stats_json(const protocol::GenerationStats& stats) {
  return {{"prompt_tps", stats.prompt_tps},
          {"generation_tps", stats.generation_tps},
          {"prompt_tokens", stats.prompt_tokens},
          {"generation_tokens", stats.generation_tokens},
          {"peak_memory_usage",
           {{"inBytes", stats.peak_memory_bytes}, {"in_bytes", stats.peak_memory_bytes}}},
          {"prefix_cache_hit", stats.prefix_cache_hit}};
}

}  // namespace

std::string ChatStream::chunk(Json delta, Json logprobs, Json finish_reason) const {
  Json json = {{"id", "chatcmpl-" + header_.command.value},
               {"object", "chat.completion.chunk"},
               {"created", header_.created},
               {"model", header_.model},
               {"system_fingerprint", "fp_exo"},
               {"choices", Json::array({{{"index", 0},
                                         {"delta", std::move(delta)},
                                         {"logprobs", std::move(logprobs)},
                                         {"finish_reason", std::move(finish_reason)}}})}};
  if (header_.include_usage) json["usage"] = nullptr;
  return event(json);
}

std::string ChatStream::role_chunk() {
  if (std::exchange(has_role_, true)) return {};
  return chunk({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
}

std::string ChatStream::events(const protocol::Chunk& any) {
  if (const auto* progress = std::get_if<PrefillProgress>(&any)) {
    const Json json = {{"PrefillProgressChunk",
                        {{"model", header_.model},
                         {"processed_tokens", progress->processed_tokens},
                         {"total_tokens", progress->total_tokens}}}};
    return fmt::format(": prefill_progress {}\n\n", dump_json(json));
  }
  if (const auto* token = std::get_if<TokenChunk>(&any)) {
    if (token->text.empty() && token->logprobs.empty()) return {};
    return role_chunk() +
           chunk({{token->is_thinking ? "reasoning_content" : "content", token->text}},
                 header_.logprobs ? logprobs_json(token->logprobs) : Json(nullptr), nullptr);
  }
  if (const auto* end = std::get_if<FinishChunk>(&any)) return role_chunk() + finish(*end);
  const Error& failure = std::get<protocol::ErrorChunk>(any).error;
  return event(error_body(http_error(failure))) + "data: [DONE]\n\n";
}

std::string ChatStream::finish(const FinishChunk& end) const {
  std::string text = chunk(Json::object(), nullptr, name(end.reason));
  if (header_.include_usage) {
    text += event({{"id", "chatcmpl-" + header_.command.value},
                   {"object", "chat.completion.chunk"},
                   {"created", header_.created},
                   {"model", header_.model},
                   {"system_fingerprint", "fp_exo"},
                   {"choices", Json::array()},
                   {"usage", usage_json(end.usage)}});
  }
  return text + fmt::format(": generation_stats {}\n\n", dump_json(stats_json(end.stats))) +
         "data: [DONE]\n\n";
}

std::string ChatStream::keep_alive() { return ": keep-alive\n\n"; }

void ChatReply::add(const TokenChunk& chunk) {
  (chunk.is_thinking ? reasoning_ : content_) += chunk.text;
  logprobs_.insert(logprobs_.end(), chunk.logprobs.begin(), chunk.logprobs.end());
}

Json ChatReply::body(const FinishChunk& end) const {
  Json message = {{"role", "assistant"},
                  {"content", content_},
                  {"refusal", nullptr},
                  {"annotations", Json::array()}};
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  return {{"id", "chatcmpl-" + header_.command.value},
          {"object", "chat.completion"},
          {"created", header_.created},
          {"model", header_.model},
          {"system_fingerprint", "fp_exo"},
          {"service_tier", "default"},
          {"choices",
           Json::array({{{"index", 0},
                         {"finish_reason", name(end.reason)},
                         {"logprobs", header_.logprobs ? logprobs_json(logprobs_) : Json(nullptr)},
                         {"message", std::move(message)}}})},
          {"usage", usage_json(end.usage)}};
}

}  // namespace exo::api
