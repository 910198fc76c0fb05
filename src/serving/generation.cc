// One request.
#include "serving/generation.h"

#include <algorithm>
#include <cmath>
#include <sys/resource.h>
#include <utility>

#include "core/clock.h"
#include "core/id.h"
#include "core/utf8.h"

namespace exo::serving {
namespace {

using protocol::FinishReason;

std::size_t count_of(std::int64_t value) {
  return static_cast<std::size_t>(std::max<std::int64_t>(value, 0));
}

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double rate(std::size_t tokens, double seconds) {
  const double value = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  return std::isfinite(value) ? value : 0;
}

}  // namespace

engine::SamplerOptions sampler_options(const protocol::TextRequest& request) {
  const protocol::SamplingParameters& given = request.sampling;
  engine::SamplerOptions options;
  options.temperature = given.temperature.value_or(options.temperature);
  options.top_p = given.top_p.value_or(options.top_p);
  options.min_p = given.min_p.value_or(options.min_p);
  if (given.top_k) options.top_k = count_of(*given.top_k);
  options.repetition_penalty = given.repetition_penalty.value_or(options.repetition_penalty);
  options.presence_penalty = given.presence_penalty.value_or(options.presence_penalty);
  options.frequency_penalty = given.frequency_penalty.value_or(options.frequency_penalty);
  if (given.repetition_context_size)
    options.repetition_context_size = count_of(*given.repetition_context_size);
  options.logit_bias.assign(given.logit_bias.begin(), given.logit_bias.end());
  options.seed = given.seed ? static_cast<std::uint64_t>(*given.seed) : random_u64();
  options.logprobs = request.logprobs;
  options.top_logprobs = request.logprobs ? count_of(request.top_logprobs) : 0;
  return options;
}

Generation::Generation(const GenerationContext& context, protocol::TextRequest request, Emit emit)
    : context_(context),
      request_(std::move(request)),
      emit_(std::move(emit)),
      filter_(request_.stop) {}

bool Generation::step() {
  Result<void> done;
  switch (phase_) {
    case Phase::kPrompt:
      done = accept();
      break;
    case Phase::kPrefill:
      done = prefill();
      break;
    case Phase::kDecode:
      done = decode();
      break;
    case Phase::kOver:
      return false;
  }
  if (!done) {
    phase_ = Phase::kOver;
    sequence_.reset();
    emit_(protocol::ErrorChunk{.error = std::move(done).error()});
  }
  return phase_ != Phase::kOver;
}

void Generation::cancel() {
  if (phase_ != Phase::kOver) finish(FinishReason::kStop, std::nullopt, true);
}

Result<void> Generation::accept() {
  started_ = std::chrono::steady_clock::now();
  EXO_TRY(prompt_, make_prompt(request_, context_.prompt));
  emit_(protocol::PrefillProgress{.processed_tokens = 0,
                                  .total_tokens = static_cast<std::int64_t>(prompt_.ids.size())});
  if (prompt_.max_tokens == 0) {
    finish(FinishReason::kLength, std::nullopt, false);
    return {};
  }
  sequence_ = context_.model->make_sequence();
  sampler_.emplace(sampler_options(request_), prompt_.ids);
  stream_ = context_.make_stream();
  next_ = prompt_.ids.back();
  phase_ = Phase::kPrefill;
  return {};
}

// All ids but the last one, which the first decode step takes.
Result<void> Generation::prefill() {
  const std::size_t all = prompt_.ids.size() - 1;
  const std::size_t count = std::min(kPrefillStep, all - prefilled_);
  if (count > 0) {
    EXO_TRY(context_.model->prefill(*sequence_, std::span(prompt_.ids).subspan(prefilled_, count)));
    prefilled_ += count;
    emit_(protocol::PrefillProgress{.processed_tokens = static_cast<std::int64_t>(prefilled_),
                                    .total_tokens = static_cast<std::int64_t>(prompt_.ids.size())});
  }
  if (prefilled_ == all) phase_ = Phase::kDecode;
  return {};
}

Result<void> Generation::decode() {
  EXO_TRY(const std::span<float> logits, context_.model->decode(*sequence_, std::span(&next_, 1)));
  const engine::Sampled sampled = sampler_->sample(logits);
  last_token_ = std::chrono::steady_clock::now();
  if (generated_ == 0) {
    decoding_ = last_token_;
    prefilled_ = prompt_.ids.size();
  }
  ++generated_;
  next_ = sampled.id;
  take(sampled);
  return {};
}

void Generation::take(const engine::Sampled& sampled) {
  if (std::ranges::find(context_.eos_ids, sampled.id) != context_.eos_ids.end()) {
    finish(FinishReason::kStop, std::nullopt, false);
    return;
  }
  std::optional<protocol::TokenChunk::Entry> entry;
  if (request_.logprobs) entry = entry_of(sampled);
  StopFilter::Output output = filter_.push(stream_->push(sampled.id), std::move(entry));
  if (output.stopped) {
    std::string stop = *output.stopped;
    show(std::move(output));
    stream_.reset();
    finish(FinishReason::kStop, std::move(stop), false);
    return;
  }
  show(std::move(output));
  if (generated_ >= prompt_.max_tokens) finish(FinishReason::kLength, std::nullopt, false);
}

void Generation::show(StopFilter::Output output) {
  if (!output.chunk.text.empty() || !output.chunk.logprobs.empty()) emit_(std::move(output.chunk));
}

// The end of the text: what the character and stop filters still hold.
void Generation::flush() {
  if (!stream_) return;
  StopFilter::Output output = filter_.push(stream_->finish(), std::nullopt);
  stream_.reset();
  const bool stopped = output.stopped.has_value();
  show(std::move(output));
  if (!stopped) show(StopFilter::Output{.chunk = filter_.flush(), .stopped = std::nullopt});
}

void Generation::finish(FinishReason reason, std::optional<std::string> stop, bool cancelled) {
  phase_ = Phase::kOver;
  if (cancelled) stream_.reset();  // nobody reads on
  flush();
  sequence_.reset();
  protocol::FinishChunk chunk;
  chunk.reason = reason;
  chunk.stop_sequence = std::move(stop);
  chunk.cancelled = cancelled;
  chunk.usage.prompt_tokens = static_cast<std::int64_t>(prompt_.ids.size());
  chunk.usage.completion_tokens = static_cast<std::int64_t>(generated_);
  chunk.stats = stats();
  emit_(std::move(chunk));
}

protocol::TokenChunk::Entry Generation::entry_of(const engine::Sampled& sampled) const {
  const auto describe = [this](std::uint32_t id, float logprob) {
    std::string bytes = context_.token_bytes(id);
    std::string token = replace_invalid_utf8(bytes);
    return protocol::TokenLogprob{.token = std::move(token),
                                  .bytes = std::move(bytes),
                                  .logprob = std::isfinite(logprob) ? logprob : -9999.0};
  };
  protocol::TokenChunk::Entry entry;
  entry.chosen = describe(sampled.id, sampled.logprob);
  for (const auto& [id, logprob] : sampled.top) entry.top.push_back(describe(id, logprob));
  return entry;
}

protocol::GenerationStats Generation::stats() const {
  protocol::GenerationStats stats;
  stats.prompt_tokens = static_cast<std::int64_t>(prompt_.ids.size());
  stats.generation_tokens = static_cast<std::int64_t>(generated_);
  stats.peak_memory_bytes = peak_memory_bytes();
  // The first token belongs to the prompt's time; the rate is that of the steps between tokens.
  if (generated_ > 0) stats.prompt_tps = rate(prefilled_, seconds_between(started_, decoding_));
  if (generated_ > 1)
    stats.generation_tps = rate(generated_ - 1, seconds_between(decoding_, last_token_));
  return stats;
}

}  // namespace exo::serving
