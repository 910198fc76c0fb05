#include "engine/footprint.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>
#include <variant>

#include "core/bytes.h"
#include "core/overloaded.h"
#include "engine/decoder_spec.h"
#include "engine/kv_cache.h"
#include "engine/weight_loader.h"
#include "kernels/pack.h"

namespace exo::engine {
namespace {

// Adds up what CpuBackend counts while it loads.
class Counter {
 public:
  Counter(const models::Checkpoint& checkpoint, kernels::FloatType kv_type)
      : checkpoint_(checkpoint), kv_type_(kv_type) {}

  // The bytes of one module's tiles.
  Result<std::size_t> linear(const LinearSpec& module) {
    EXO_TRY(const models::MatrixView view,
            checkpoint_.matrix(module.name, module.total_rows(), module.total_cols()));
    auto encoding = tile_encoding(view.format);
    if (!encoding) return fail(encoding.error().code, encoding.error().message, module.name);
    const std::size_t bytes = kernels::packed_bytes(*encoding, module.rows, module.cols);
    weights_ += bytes;
    parameters_ += module.rows * module.cols;
    if (module.bias) vector(module.name + ".bias", module.rows);
    matrices_.push_back({.name = module.name,
                         .format = view.format,
                         .rows = module.rows,
                         .cols = module.cols,
                         .bytes = view.codes.size() + view.scales.size() + view.biases.size()});
    return bytes;
  }

  void vector(const std::string& name, std::size_t size) {
    weights_ += size * sizeof(float);
    parameters_ += size;
    vectors_.push_back({.name = name, .size = size});
  }

  Result<void> linears(std::initializer_list<const LinearSpec*> modules) {
    for (const LinearSpec* module : modules) {
      EXO_TRY(linear(*module));
    }
    return {};
  }

  void norms(std::size_t size, std::initializer_list<const std::optional<NormSpec>*> specs) {
    for (const auto* spec : specs)
      if (*spec) vector((*spec)->tensor, size);
  }

  Result<void> layer(const LayerSpec& spec, std::size_t hidden) {
    vector(spec.mixer_norm.tensor, hidden);
    vector(spec.feed_forward_norm.tensor, hidden);
    norms(hidden, {&spec.mixer_post_norm, &spec.feed_forward_post_norm});
    EXO_TRY(
        std::visit(Overloaded{[&](const AttentionSpec& a) { return attention(a); }}, spec.mixer));
    return std::visit(
        Overloaded{[&](const GatedSpec& g) { return linears({&g.gate, &g.up, &g.down}); }},
        spec.feed_forward);
  }

  Result<void> attention(const AttentionSpec& spec) {
    norms(spec.head_dim, {&spec.q_norm, &spec.k_norm});
    shapes_.push_back(
        {.kv_heads = spec.kv_heads, .head_dim = spec.head_dim, .window = spec.window});
    return linears({&spec.q, &spec.k, &spec.v, &spec.o});
  }

  std::size_t weights() const { return weights_; }
  std::size_t parameters() const { return parameters_; }
  std::span<const StoredMatrix> matrices() const { return matrices_; }
  std::vector<StoredMatrix> take_matrices() { return std::move(matrices_); }
  std::vector<StoredVector> take_vectors() { return std::move(vectors_); }
  std::size_t cache_bytes_per_position() const {
    return KvCache(shapes_, kv_type_, 1).bytes_per_position();
  }
  // A layer with a window keeps no more than that, in whole steps of growth.
  std::size_t cache_bytes(std::size_t positions) const {
    std::size_t sum = 0;
    for (const KvShape& shape : shapes_) {
      const std::size_t kept = shape.window == 0 ? positions : shape.window + KvCache::kGrowth;
      sum += std::min(positions, kept) * KvCache({shape}, kv_type_, 1).bytes_per_position();
    }
    return sum;
  }

 private:
  const models::Checkpoint& checkpoint_;
  kernels::FloatType kv_type_;
  std::size_t weights_ = 0, parameters_ = 0;
  std::vector<StoredMatrix> matrices_;
  std::vector<StoredVector> vectors_;
  std::vector<KvShape> shapes_;
};

}  // namespace

Result<Footprint> footprint(const models::Checkpoint& checkpoint, const LoadOptions& options) {
  EXO_TRY(DecoderSpec spec, decoder_spec(checkpoint.config()));
  if (spec.head_is_optional && !checkpoint.has(spec.head->name + ".weight")) spec.head.reset();
  const bool exact = options.precision == kernels::Precision::kExact;
  Counter counter(checkpoint, exact ? kernels::FloatType::kF32 : options.kv_type);
  EXO_TRY(
      const std::size_t embedding,
      counter.linear({.name = spec.embedding, .rows = spec.vocab_size, .cols = spec.hidden_size}));
  for (const LayerSpec& layer : spec.layers) {
    EXO_TRY(counter.layer(layer, spec.hidden_size));
  }
  std::size_t layer_weights = 0;
  for (const StoredMatrix& matrix : counter.matrices().subspan(1))
    layer_weights += matrix.rows * matrix.cols;
  counter.vector(spec.final_norm.tensor, spec.hidden_size);
  if (spec.head) {
    EXO_TRY(counter.linear(*spec.head));
  }
  // A look-up reads one row of the embedding; as a tied head all of it is read.
  const std::size_t unread = spec.head ? embedding - embedding / spec.vocab_size : 0;
  return Footprint{.model = {.vocab_size = spec.vocab_size,
                             .layers = spec.layers.size(),
                             .context_length = spec.context_length,
                             .weight_bytes = counter.weights(),
                             .bytes_per_token = counter.weights() - unread,
                             .kv_bytes_per_token = counter.cache_bytes_per_position()},
                   .cache_bytes = counter.cache_bytes(spec.context_length),
                   .parameters = counter.parameters(),
                   .layer_weights = layer_weights,
                   .matrices = counter.take_matrices(),
                   .vectors = counter.take_vectors()};
}

}  // namespace exo::engine
