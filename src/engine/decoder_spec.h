// An architecture as data: a decoder described layer by layer. Families make it, backends run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "kernels/rope.h"
#include "kernels/vector_ops.h"

namespace exo::engine {

// Where a rotary embedding's frequencies come from. Source: models.md 2.3, gguf.md 3.2.
struct DefaultRope {
  friend bool operator==(const DefaultRope&, const DefaultRope&) = default;
};
struct LinearRope {
  double factor = 1;  // positions are divided by it

  friend bool operator==(const LinearRope&, const LinearRope&) = default;
};
struct Llama3Rope {
  float factor = 1, low_freq_factor = 1, high_freq_factor = 4, original_context = 8192;

  friend bool operator==(const Llama3Rope&, const Llama3Rope&) = default;
};
struct DivisorRope {
  std::vector<float> divisors = {};  // rotated / 2; may be huge (a dimension that does not rotate)

  friend bool operator==(const DivisorRope&, const DivisorRope&) = default;
};
using RopeScaling = std::variant<DefaultRope, LinearRope, Llama3Rope, DivisorRope>;

struct RopeSpec {
  std::size_t rotated = 0;  // dimensions of a head that rotate, from the first; even
  float base = 10000;
  kernels::RopePairs pairs = kernels::RopePairs::kHalfSplit;
  RopeScaling scaling = {};

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

// The angle per position of each rotated pair: f32[rotated / 2].
std::vector<float> frequencies(const RopeSpec& rope);

// A contiguous part of an axis; total 0: all of it.
struct Slice {
  std::size_t first = 0, total = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// y = x·Wᵀ (+ bias): module `name` with a weight of [rows, cols], which may be a part of what the
// checkpoint has (shard.h).
struct LinearSpec {
  std::string name = {};
  std::size_t rows = 0, cols = 0;
  bool bias = false;
  Slice row_slice = {}, col_slice = {};

  std::size_t total_rows() const { return row_slice.total > 0 ? row_slice.total : rows; }
  std::size_t total_cols() const { return col_slice.total > 0 ? col_slice.total : cols; }
};

// RMSNorm with weights w, or 1 + w. Source: models.md 2.1.
struct NormSpec {
  std::string tensor = {};
  bool one_plus = false;
};

// Grouped-query attention. Source: models.md 2.4.
struct AttentionSpec {
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
  std::size_t window = 0;  // > 0: a query sees the last `window` keys, itself included
  float scale = 1;
  std::size_t rope = 0;  // index into DecoderSpec::ropes
  LinearSpec q = {}, k = {}, v = {}, o = {};
  std::size_t o_first =
      0;  // o's column that the first head meets; those beside the heads meet zeros
  std::optional<NormSpec> q_norm = {}, k_norm = {};  // of each head, [head_dim], before rotation
};
using Mixer = std::variant<AttentionSpec>;

// down(activation(gate(x)) ∘ up(x)).
struct GatedSpec {
  LinearSpec gate = {}, up = {}, down = {};
  kernels::Activation activation = kernels::Activation::kSilu;
};
using FeedForward = std::variant<GatedSpec>;

// h += post_norm(mixer(norm(h))); h += post_norm(feed_forward(norm(h))). Norms are of
// [hidden_size].
struct LayerSpec {
  NormSpec mixer_norm = {};
  Mixer mixer = {};
  std::optional<NormSpec> mixer_post_norm = {};
  NormSpec feed_forward_norm = {};
  FeedForward feed_forward = {};
  std::optional<NormSpec> feed_forward_post_norm = {};
};

// What a rank has beside its layers; all of it unless the spec is a shard's.
struct Ends {
  bool embeds = true;     // looks ids up: the first stage
  bool has_head = true;   // final norm and head: the last stage
  Slice vocabulary = {};  // the rows of embedding and head that are held, as of `total` in all
  std::size_t held = 0;   // so many; 0: all
};

struct DecoderSpec {
  std::size_t hidden_size = 0, vocab_size = 0;
  std::size_t context_length = 0;  // 0: unknown
  float norm_eps = 1e-5F;
  std::string embedding = {};           // module of [vocab_size, hidden_size]
  float embedding_scale = 1;            // what its rows are multiplied by; not as a tied head
  NormSpec final_norm = {};             // of [hidden_size]
  std::optional<LinearSpec> head = {};  // nothing: tied to the embedding
  bool head_is_optional = false;        // tied exactly where the checkpoint has no head
  std::vector<RopeSpec> ropes = {};     // the distinct ones of all layers
  std::vector<LayerSpec> layers = {};
  Ends ends = {};

  // The rows of embedding and head that are held here.
  std::size_t tokens() const { return ends.held > 0 ? ends.held : vocab_size; }
  LinearSpec embedding_rows() const {
    return {.name = embedding, .rows = tokens(), .cols = hidden_size, .row_slice = ends.vocabulary};
  }
  bool holds_embedding() const { return ends.embeds || (ends.has_head && !head); }
};

// The description of the model whose configuration this is: looks its model_type up among the
// families. Errors: kUnsupported: the type, or something that the configuration asks for, by name;
// kInvalidInput: a value that is missing, of the wrong type or out of range. `subject` is the key.
Result<DecoderSpec> decoder_spec(const Json& config);

}  // namespace exo::engine
