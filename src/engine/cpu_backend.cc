#include "engine/cpu_backend.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.h"
#include "core/overloaded.h"
#include "engine/logit_scan.h"
#include "kernels/attention.h"
#include "kernels/rope.h"
#include "kernels/vector_ops.h"

namespace exo::engine {
namespace {

constexpr std::size_t kRowGrain = 16;  // rows per chunk of element-wise work
constexpr std::size_t kUnknownContext = std::size_t{1} << 17;

class CpuSequence final : public Sequence {
 public:
  explicit CpuSequence(KvCache cache) : cache_(std::move(cache)) {}

  std::size_t length() const override { return cache_.length(); }
  Result<void> trim(std::size_t length) override { return cache_.trim(length); }
  std::size_t bytes() const override { return cache_.bytes(); }

  KvCache& cache() { return cache_; }

 private:
  KvCache cache_;
};

std::size_t bytes_of(const std::vector<float>& values) { return values.size() * sizeof(float); }

// A buffer that never shrinks, so that steps of one size allocate nothing.
void grow(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

CpuBackend::CpuBackend(const DecoderSpec& spec, kernels::ThreadPool& pool,
                       const LoadOptions& options, Ranks* ranks)
    : spec_(spec),
      pool_(pool),
      precision_(options.precision),
      kv_type_(options.precision == kernels::Precision::kExact ? kernels::FloatType::kF32
                                                               : options.kv_type),
      ranks_(ranks) {
  for (const RopeSpec& rope : spec.ropes) angles_.push_back({.frequencies = frequencies(rope)});
}

Result<void> CpuBackend::load_embedding(WeightLoader& loader) {
  if (!spec_.holds_embedding()) return {};
  EXO_TRY(embedding_, loader.matrix(spec_.embedding_rows()));
  weight_bytes_ += embedding_.data.size();
  return {};
}

Result<CpuBackend::AttentionWeights> CpuBackend::load(WeightLoader& loader,
                                                      const AttentionSpec& spec) {
  AttentionWeights weights;
  EXO_TRY(weights.qkv, Projection::load(loader, std::array{spec.q, spec.k, spec.v}));
  EXO_TRY(weights.o, loader.matrix(spec.o));
  EXO_TRY(weights.o_bias, loader.bias(spec.o));
  kv_shapes_.push_back(
      {.kv_heads = spec.kv_heads, .head_dim = spec.head_dim, .window = spec.window});
  EXO_TRY(weights.q_norm, load(loader, spec.q_norm, spec.head_dim));
  EXO_TRY(weights.k_norm, load(loader, spec.k_norm, spec.head_dim));
  weight_bytes_ += weights.qkv.bytes() + weights.o.data.size() + bytes_of(weights.o_bias);
  return weights;
}

Result<CpuBackend::GatedWeights> CpuBackend::load(WeightLoader& loader, const GatedSpec& spec) {
  GatedWeights weights;
  EXO_TRY(const ModuleView gate, loader.view(spec.gate));
  EXO_TRY(const ModuleView up, loader.view(spec.up));
  if (gate.whole.format == up.whole.format && !spec.gate.bias && !spec.up.bias) {
    EXO_TRY(weights.interleaved,
            loader.matrix(std::array{gate, up}, kernels::Arrangement::kInterleaved));
  } else {
    EXO_TRY(weights.gate_up, Projection::load(loader, std::array{spec.gate, spec.up}));
  }
  EXO_TRY(weights.down, loader.matrix(spec.down));
  EXO_TRY(weights.down_bias, loader.bias(spec.down));
  weight_bytes_ +=
      weights.interleaved.data.size() + weights.gate_up.bytes() + weights.down.data.size();
  weight_bytes_ += bytes_of(weights.down_bias);
  return weights;
}

Result<std::vector<float>> CpuBackend::load(WeightLoader& loader,
                                            const std::optional<NormSpec>& spec, std::size_t size) {
  if (!spec) return std::vector<float>{};
  EXO_TRY(std::vector<float> weight, loader.vector(spec->tensor, size));
  if (spec->one_plus)
    for (float& w : weight) w += 1;
  weight_bytes_ += size * sizeof(float);
  return weight;
}

Result<void> CpuBackend::load_layer(WeightLoader& loader, std::size_t index) {
  EXO_CHECK(index == layers_.size());
  const LayerSpec& spec = spec_.layers[index];
  Layer layer;
  const std::size_t width = spec_.hidden_size;
  EXO_TRY(layer.mixer_norm, load(loader, spec.mixer_norm, width));
  EXO_TRY(layer.mixer_post_norm, load(loader, spec.mixer_post_norm, width));
  EXO_TRY(layer.feed_forward_norm, load(loader, spec.feed_forward_norm, width));
  EXO_TRY(layer.feed_forward_post_norm, load(loader, spec.feed_forward_post_norm, width));
  EXO_TRY(std::visit(
      [&](const auto& mixer) -> Result<void> {
        EXO_TRY(layer.mixer, load(loader, mixer));
        return {};
      },
      spec.mixer));
  EXO_TRY(std::visit(
      [&](const auto& feed_forward) -> Result<void> {
        EXO_TRY(layer.feed_forward, load(loader, feed_forward));
        return {};
      },
      spec.feed_forward));
  layers_.push_back(std::move(layer));
  return {};
}

Result<void> CpuBackend::load_head(WeightLoader& loader) {
  if (!spec_.ends.has_head) return {};
  EXO_TRY(final_norm_, load(loader, spec_.final_norm, spec_.hidden_size));
  if (!spec_.head) return {};
  EXO_TRY(head_, loader.matrix(*spec_.head));
  weight_bytes_ += head_.data.size();
  return {};
}

void CpuBackend::describe(ModelInfo& info) const {
  info.weight_bytes = weight_bytes_;
  // A look-up reads one row of the embedding; as a tied head all of it is read.
  info.bytes_per_token = weight_bytes_;
  if (spec_.head || !spec_.ends.has_head) {
    const std::size_t row_bytes =
        embedding_.data.size() / std::max<std::size_t>(embedding_.rows, 1);
    info.bytes_per_token -= embedding_.data.size() - row_bytes;
  }
  info.kv_bytes_per_token = KvCache(kv_shapes_, kv_type_, 1).bytes_per_position();
}

std::unique_ptr<Sequence> CpuBackend::make_sequence() {
  return std::make_unique<CpuSequence>(KvCache(
      kv_shapes_, kv_type_, spec_.context_length > 0 ? spec_.context_length : kUnknownContext));
}

Result<void> CpuBackend::begin(Sequence& sequence, std::size_t count) {
  auto* own = dynamic_cast<CpuSequence*>(&sequence);
  EXO_CHECK(own != nullptr);
  EXO_TRY(own->cache().reserve(count));
  cache_ = &own->cache();
  position_ = cache_->length();
  count_ = count;
  grow(hidden_, count * spec_.hidden_size);
  for (Angles& angles : angles_) fill_angles(angles);
  return {};
}

void CpuBackend::fill_angles(Angles& angles) {
  const std::size_t half = angles.frequencies.size();
  grow(angles.cosines, count_ * half);
  grow(angles.sines, count_ * half);
  pool_.parallel_for(count_, kRowGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      kernels::rope_angles(angles.frequencies, position_ + i, angles.cosines.data() + i * half,
                           angles.sines.data() + i * half);
  });
}

Result<void> CpuBackend::embed(std::span<const std::uint32_t> ids) {
  EXO_CHECK(ids.size() == count_);
  const std::size_t first = spec_.ends.vocabulary.first, held = spec_.tokens();
  pool_.parallel_for(count_, kRowGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (ids[i] < first || ids[i] - first >= held) {  // another rank of the stage has it
        std::fill_n(row(i), spec_.hidden_size, 0.0F);
        continue;
      }
      kernels::unpack_row(embedding_, 0, ids[i] - first, row(i));
      if (spec_.embedding_scale == 1) continue;
      for (std::size_t c = 0; c < spec_.hidden_size; ++c) row(i)[c] *= spec_.embedding_scale;
    }
  });
  return splits_layers() ? ranks_->sum(hidden_rows()) : Result<void>();
}

Result<void> CpuBackend::receive_hidden() { return ranks_->receive_hidden(hidden_rows()); }
Result<void> CpuBackend::send_hidden() { return ranks_->send_hidden(hidden_rows()); }

Rows CpuBackend::normalise(std::size_t first, std::size_t count, const std::vector<float>& weight) {
  const std::size_t width = spec_.hidden_size;
  grow(normed_, count * width);
  pool_.parallel_for(count, kRowGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      kernels::rms_norm(row(first + i), weight.data(), spec_.norm_eps, normed_.data() + i * width,
                        width);
  });
  return {.x = normed_.data(), .count = count, .width = width, .stride = width};
}

Result<void> CpuBackend::add_product(std::size_t first, const Rows& x,
                                     const kernels::Matrix& matrix, const std::vector<float>& bias,
                                     const std::vector<float>& post_norm) {
  const std::size_t width = spec_.hidden_size;
  kernels::prepare(activations_, x.x, x.count, x.width, x.stride, matrix.encoding, precision_,
                   pool_);
  if (post_norm.empty() && !splits_layers()) {
    kernels::multiply_add(matrix, activations_, row(first), width, pool_);
    add_bias(bias, {.y = row(first), .stride = width}, x.count, pool_);
    return {};
  }
  grow(normed_, x.count * width);
  kernels::multiply(matrix, activations_, normed_.data(), width, pool_);
  add_bias(bias, {.y = normed_.data(), .stride = width}, x.count, pool_);
  if (splits_layers()) {
    EXO_TRY(ranks_->sum(std::span(normed_).first(x.count * width)));
  }
  pool_.parallel_for(x.count, kRowGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float* y = normed_.data() + i * width;
      if (!post_norm.empty()) kernels::rms_norm(y, post_norm.data(), spec_.norm_eps, y, width);
      kernels::add(y, row(first + i), width);
    }
  });
  return {};
}

void CpuBackend::normalise_heads(const AttentionSpec& spec, const AttentionWeights& weights,
                                 std::size_t stride) {
  if (weights.q_norm.empty() && weights.k_norm.empty()) return;
  const auto norm_each = [&](float* heads, std::size_t count, const std::vector<float>& weight) {
    if (weight.empty()) return;
    for (std::size_t h = 0; h < count; ++h, heads += spec.head_dim)
      kernels::rms_norm(heads, weight.data(), spec_.norm_eps, heads, spec.head_dim);
  };
  pool_.parallel_for(count_, kRowGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float* q = wide_.data() + i * stride;
      norm_each(q, spec.heads, weights.q_norm);
      norm_each(q + spec.heads * spec.head_dim, spec.kv_heads, weights.k_norm);
    }
  });
}

// Rows of wide_ are q, k, v side by side, `stride` floats apart.
void CpuBackend::rotate_and_store(std::size_t layer, const AttentionSpec& spec,
                                  std::size_t stride) {
  const Angles& angles = angles_[spec.rope];
  const RopeSpec& rope = spec_.ropes[spec.rope];
  const kernels::KvView view = cache_->layer(layer);
  const std::size_t half = rope.rotated / 2, heads = spec.heads + spec.kv_heads;
  pool_.parallel_for(count_, kRowGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)  // q's heads and k's lie one after another
      kernels::rope(wide_.data() + i * stride, heads, spec.head_dim, rope.rotated,
                    angles.cosines.data() + i * half, angles.sines.data() + i * half, rope.pairs);
    const float* k = wide_.data() + begin * stride + spec.heads * spec.head_dim;
    kernels::store_kv(view, position_ + begin, k, k + spec.kv_heads * spec.head_dim, end - begin,
                      stride);
  });
}

Result<void> CpuBackend::attention(std::size_t layer, const AttentionSpec& spec, Needed needed) {
  const auto& weights = std::get<AttentionWeights>(layers_[layer].mixer);
  const std::size_t q_size = spec.heads * spec.head_dim, kv_size = spec.kv_heads * spec.head_dim;
  const std::size_t stride = q_size + 2 * kv_size;
  grow(wide_, count_ * stride);
  const std::array outputs = {Output{.y = wide_.data(), .stride = stride},
                              Output{.y = wide_.data() + q_size, .stride = stride},
                              Output{.y = wide_.data() + q_size + kv_size, .stride = stride}};
  weights.qkv.multiply(normalise(0, count_, layers_[layer].mixer_norm), outputs, precision_,
                       activations_, pool_);
  normalise_heads(spec, weights, stride);
  rotate_and_store(layer, spec, stride);
  if (needed == Needed::kNone) return {};

  const std::size_t first = needed == Needed::kLast ? count_ - 1 : 0;
  const std::size_t rows = count_ - first;
  const std::size_t width = spec.o.cols;
  grow(mixed_, rows * width);
  if (width != q_size) std::fill_n(mixed_.data(), rows * width, 0.0F);
  kernels::attend(cache_->layer(layer),
                  {.heads = spec.heads,
                   .first = position_ + first,
                   .count = rows,
                   .window = spec.window,
                   .scale = spec.scale},
                  wide_.data() + first * stride, stride, mixed_.data() + spec.o_first, width,
                  pool_);
  return add_product(first, {.x = mixed_.data(), .count = rows, .width = width, .stride = width},
                     weights.o, weights.o_bias, layers_[layer].mixer_post_norm);
}

Result<void> CpuBackend::gated(std::size_t layer, const GatedSpec& spec, Needed needed) {
  if (needed == Needed::kNone) return {};
  const auto& weights = std::get<GatedWeights>(layers_[layer].feed_forward);
  const std::size_t first = needed == Needed::kLast ? count_ - 1 : 0;
  const std::size_t rows = count_ - first, width = spec.gate.rows;
  const Rows x = normalise(first, rows, layers_[layer].feed_forward_norm);
  grow(wide_, rows * width);
  if (weights.fused()) {
    kernels::prepare(activations_, x.x, x.count, x.width, x.stride, weights.interleaved.encoding,
                     precision_, pool_);
    kernels::multiply_gated(weights.interleaved, spec.activation, activations_, wide_.data(), width,
                            pool_);
  } else {
    grow(mixed_, rows * width);
    const std::array outputs = {Output{.y = wide_.data(), .stride = width},
                                Output{.y = mixed_.data(), .stride = width}};
    weights.gate_up.multiply(x, outputs, precision_, activations_, pool_);
    kernels::GatedFn* const activate = kernels::gated(spec.activation, kernels::active_isa());
    pool_.parallel_for(rows, kRowGrain, [&](std::size_t begin, std::size_t end) {
      float* gate = wide_.data() + begin * width;
      activate(gate, mixed_.data() + begin * width, gate, (end - begin) * width);
    });
  }
  return add_product(first, {.x = wide_.data(), .count = rows, .width = width, .stride = width},
                     weights.down, weights.down_bias, layers_[layer].feed_forward_post_norm);
}

bool CpuBackend::finite() const {
  return all_finite(std::span(hidden_).first(count_ * spec_.hidden_size));
}

Result<std::span<float>> CpuBackend::logits(std::size_t first, std::size_t count) {
  std::span<float> own;
  if (spec_.ends.has_head) {
    const kernels::Matrix& head = spec_.head ? head_ : embedding_;
    const Rows x = normalise(first, count, final_norm_);
    grow(logits_, count * spec_.tokens());
    kernels::prepare(activations_, x.x, x.count, x.width, x.stride, head.encoding, precision_,
                     pool_);
    kernels::multiply(head, activations_, logits_.data(), spec_.tokens(), pool_);
    own = std::span(logits_).first(count * spec_.tokens());
  }
  if (ranks_ == nullptr) return own;
  grow(collected_, ranks_->leads() ? count * spec_.vocab_size : 0);
  const std::span<float> all =
      std::span(collected_).first(ranks_->leads() ? count * spec_.vocab_size : 0);
  EXO_TRY(ranks_->collect_logits(own, count, spec_.vocab_size, all));
  return all;
}

void CpuBackend::end() {
  cache_->advance(count_);
  cache_ = nullptr;
}

}  // namespace exo::engine
