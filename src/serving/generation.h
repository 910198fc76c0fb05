// One request: prompt, prefill, decode loop, stop rules, and exactly one terminal chunk.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "protocol/chunk.h"
#include "protocol/request.h"
#include "serving/prompt.h"
#include "serving/stop_filter.h"

namespace exo::serving {

// Ids → text as a stream. Two sides: engine::Detokenizer, and a test's.
class TextStream {
 public:
  virtual ~TextStream() = default;
  virtual std::string push(std::uint32_t id) = 0;
  virtual std::string finish() = 0;
};

// What every generation of one model shares.
struct GenerationContext {
  engine::Model* model = nullptr;
  PromptContext prompt = {};
  std::vector<std::uint32_t> eos_ids = {};
  std::function<std::unique_ptr<TextStream>()> make_stream = {};
  std::function<std::string(std::uint32_t id)> token_bytes = {};
};

engine::SamplerOptions sampler_options(const protocol::TextRequest& request);

// Driven by step() until it says that it is over; every call does a bounded piece of work, so that
// a scheduler can look for cancellation between them.
class Generation {
 public:
  using Emit = std::function<void(protocol::Chunk chunk)>;

  // `context` must outlive it.
  Generation(const GenerationContext& context, protocol::TextRequest request, Emit emit);

  // False once the terminal chunk has been emitted.
  bool step();
  // Ends it with FinishChunk{cancelled}; nothing if it is over.
  void cancel();

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Phase : std::uint8_t { kPrompt, kPrefill, kDecode, kOver };

  Result<void> accept();
  Result<void> prefill();
  Result<void> decode();
  void take(const engine::Sampled& sampled);
  void show(StopFilter::Output output);
  void finish(protocol::FinishReason reason, std::optional<std::string> stop, bool cancelled);
  void flush();
  protocol::TokenChunk::Entry entry_of(const engine::Sampled& sampled) const;
  protocol::GenerationStats stats() const;

  const GenerationContext& context_;
  const protocol::TextRequest request_;
  const Emit emit_;
  Phase phase_ = Phase::kPrompt;
  Prompt prompt_;
  std::unique_ptr<engine::Sequence> sequence_;
  std::optional<engine::Sampler> sampler_;
  std::unique_ptr<TextStream> stream_;
  StopFilter filter_;
  std::uint32_t next_ = 0;     // the id that the next decode appends
  std::size_t prefilled_ = 0;  // of the prompt's ids
  std::size_t generated_ = 0;  // the end-of-sequence id included
  Time started_{}, decoding_{}, last_token_{};
};

inline constexpr std::size_t kPrefillStep = 128;

}  // namespace exo::serving
