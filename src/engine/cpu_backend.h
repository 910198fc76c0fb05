// The first backend: tiles and kernels over a thread pool.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "engine/backend.h"
#include "engine/kv_cache.h"
#include "engine/projection.h"
#include "engine/ranks.h"
#include "kernels/multiply.h"

namespace exo::engine {

class CpuBackend final : public Backend {
 public:
  // Borrows `spec`, `pool` and `ranks` while it lives; `ranks` is null where there is one only.
  CpuBackend(const DecoderSpec& spec, kernels::ThreadPool& pool, const LoadOptions& options,
             Ranks* ranks);

  Result<void> load_embedding(WeightLoader& loader) override;
  Result<void> load_layer(WeightLoader& loader, std::size_t layer) override;
  Result<void> load_head(WeightLoader& loader) override;
  void describe(ModelInfo& info) const override;

  std::unique_ptr<Sequence> make_sequence() override;

  Result<void> begin(Sequence& sequence, std::size_t count) override;
  Result<void> embed(std::span<const std::uint32_t> ids) override;
  Result<void> attention(std::size_t layer, const AttentionSpec& spec, Needed needed) override;
  Result<void> gated(std::size_t layer, const GatedSpec& spec, Needed needed) override;
  Result<void> receive_hidden() override;
  Result<void> send_hidden() override;
  bool finite() const override;
  Result<std::span<float>> logits(std::size_t first, std::size_t count) override;
  void end() override;

 private:
  struct AttentionWeights {
    Projection qkv;
    kernels::Matrix o;
    std::vector<float> o_bias;
    std::vector<float> q_norm, k_norm;  // [head_dim], or empty: none
  };
  // Gate and up in one stream of tiles if they can be; else side by side.
  struct GatedWeights {
    kernels::Matrix interleaved;
    Projection gate_up;
    kernels::Matrix down;
    std::vector<float> down_bias;

    bool fused() const { return interleaved.tiles > 0; }
  };
  struct Layer {
    std::vector<float> mixer_norm, mixer_post_norm;  // a post-norm may be empty: none
    std::vector<float> feed_forward_norm, feed_forward_post_norm;
    std::variant<AttentionWeights> mixer;
    std::variant<GatedWeights> feed_forward;
  };
  struct Angles {
    std::vector<float> frequencies = {};
    std::vector<float> cosines = {}, sines = {};  // f32[count, rotated / 2] of the step's positions
  };

  Result<AttentionWeights> load(WeightLoader& loader, const AttentionSpec& spec);
  Result<GatedWeights> load(WeightLoader& loader, const GatedSpec& spec);
  Result<std::vector<float>> load(WeightLoader& loader, const std::optional<NormSpec>& spec,
                                  std::size_t size);

  bool splits_layers() const { return ranks_ != nullptr && ranks_->splits_layers(); }
  std::span<float> hidden_rows() { return std::span(hidden_).first(count_ * spec_.hidden_size); }
  float* row(std::size_t index) { return hidden_.data() + index * spec_.hidden_size; }
  // The normed rows [first, first + count) of the hidden state.
  Rows normalise(std::size_t first, std::size_t count, const std::vector<float>& weight);
  void fill_angles(Angles& angles);
  void rotate_and_store(std::size_t layer, const AttentionSpec& spec, std::size_t stride);
  void normalise_heads(const AttentionSpec& spec, const AttentionWeights& weights,
                       std::size_t stride);
  // hidden rows [first, …) += post_norm(x·Wᵀ + bias), summed over the ranks of the stage; an empty
  // post_norm: none.
  Result<void> add_product(std::size_t first, const Rows& x, const kernels::Matrix& matrix,
                           const std::vector<float>& bias, const std::vector<float>& post_norm);

  const DecoderSpec& spec_;
  kernels::ThreadPool& pool_;
  kernels::Precision precision_;
  kernels::FloatType kv_type_;
  Ranks* ranks_;

  kernels::Matrix embedding_, head_;  // head_ is empty when tied
  std::vector<float> final_norm_;
  std::vector<Layer> layers_;
  std::vector<KvShape> kv_shapes_;
  std::size_t weight_bytes_ = 0;

  // The step in progress.
  KvCache* cache_ = nullptr;
  std::size_t position_ = 0, count_ = 0;
  std::vector<float> hidden_, normed_, wide_, mixed_, logits_,
      collected_;               // rows of the step; reused
  std::vector<Angles> angles_;  // per DecoderSpec::ropes
  kernels::Activations activations_;
};

}  // namespace exo::engine
