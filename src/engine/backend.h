// The GPU seam: what a device does for the executor, one operation per block of a layer. Weights,
// caches and the hidden state f32[count, hidden_size] of the step in progress belong to the
// backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/result.h"
#include "engine/decoder_spec.h"
#include "engine/model.h"
#include "engine/weight_loader.h"

namespace exo::engine {

// Which rows of the hidden state later operations of the step still read.
enum class Needed : std::uint8_t { kAll, kLast, kNone };

class Backend {
 public:
  virtual ~Backend() = default;

  // Loading, in this order, layers from the first. Errors: as WeightLoader.
  virtual Result<void> load_embedding(WeightLoader& loader) = 0;
  virtual Result<void> load_layer(WeightLoader& loader, std::size_t layer) = 0;
  virtual Result<void> load_head(WeightLoader& loader) = 0;
  // weight_bytes, bytes_per_token and kv_bytes_per_token of what is loaded.
  virtual void describe(ModelInfo& info) const = 0;

  virtual std::unique_ptr<Sequence> make_sequence() = 0;

  // Begins a step that appends `count` positions to `sequence`, which must be one of this
  // backend's. Errors: kContextLength, kNoSpace; the sequence stays as it was.
  virtual Result<void> begin(Sequence& sequence, std::size_t count) = 0;
  // Where several ranks compute a model, these may exchange with the others, and every rank makes
  // the same calls. Errors: as Ranks.
  virtual Result<void> embed(std::span<const std::uint32_t> ids) = 0;  // `count`, below vocab_size
  // h += post_norm(attention(norm(h))); stores the keys and values of all rows in any case.
  virtual Result<void> attention(std::size_t layer, const AttentionSpec& spec, Needed needed) = 0;
  // h += post_norm(ffn(norm(h))).
  virtual Result<void> gated(std::size_t layer, const GatedSpec& spec, Needed needed) = 0;
  // The hidden state out of the stage before, and to the stage behind.
  virtual Result<void> receive_hidden() = 0;
  virtual Result<void> send_hidden() = 0;
  // Whether the hidden state of the step is free of NaN and infinity.
  virtual bool finite() const = 0;
  // Final norm and head of rows [first, first + count): f32[count, vocab_size], valid until the
  // next call; at other ranks than 0 nothing.
  virtual Result<std::span<float>> logits(std::size_t first, std::size_t count) = 0;
  // Ends the step: its positions are in the sequence.
  virtual void end() = 0;
};

}  // namespace exo::engine
