// Asks a checkpoint everything that the program asks of one.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "engine/decoder_spec.h"
#include "engine/weight_loader.h"
#include "kernels/thread_pool.h"
#include "models/card.h"
#include "models/checkpoint.h"

namespace exo::fuzz {

// Reads every byte, so that a view that ends outside of its file does not stay unseen.
inline void touch(std::span<const std::byte> bytes) {
  volatile unsigned sum = 0;
  for (const std::byte byte : bytes) sum = sum + std::to_integer<unsigned>(byte);
}

// Views a matrix, and packs it into tiles if that is quickly done.
inline void walk_linear(const models::Checkpoint& model, const engine::LinearSpec& linear) {
  constexpr std::size_t kFewBytes = 1 << 16;
  static kernels::ThreadPool pool({.threads = 1});
  static const engine::WeightLoader::Progress no_progress;
  const auto view = model.matrix(linear.name, linear.rows, linear.cols);
  if (!view) return;
  touch(view->codes);
  touch(view->scales);
  touch(view->biases);
  engine::WeightLoader loader(model, pool, no_progress);
  if (view->codes.size() <= kFewBytes) (void)loader.matrix(linear);
  (void)loader.bias(linear);
  model.drop(view->codes);
}

inline void walk_norm(const models::Checkpoint& model, const engine::NormSpec& norm,
                      std::size_t size) {
  (void)model.vector(norm.tensor, size);
}

inline void walk_layer(const models::Checkpoint& model, const engine::LayerSpec& layer,
                       std::size_t hidden_size) {
  walk_norm(model, layer.mixer_norm, hidden_size);
  walk_norm(model, layer.feed_forward_norm, hidden_size);
  std::visit(
      [&](const engine::AttentionSpec& attention) {
        for (const auto* linear : {&attention.q, &attention.k, &attention.v, &attention.o})
          walk_linear(model, *linear);
        if (attention.q_norm) walk_norm(model, *attention.q_norm, attention.head_dim);
      },
      layer.mixer);
  std::visit(
      [&](const engine::GatedSpec& gated) {
        for (const auto* linear : {&gated.gate, &gated.up, &gated.down})
          walk_linear(model, *linear);
      },
      layer.feed_forward);
}

inline void walk_decoder(const models::Checkpoint& model, const engine::DecoderSpec& spec) {
  walk_linear(model, {.name = spec.embedding, .rows = spec.vocab_size, .cols = spec.hidden_size});
  if (spec.head) walk_linear(model, *spec.head);
  walk_norm(model, spec.final_norm, spec.hidden_size);
  for (const engine::RopeSpec& rope : spec.ropes) (void)engine::frequencies(rope);
  for (const engine::LayerSpec& layer : spec.layers) walk_layer(model, layer, spec.hidden_size);
}

inline void walk_checkpoint(const models::Checkpoint& model) {
  for (const models::TensorInfo& tensor : model.tensors()) {
    const std::size_t size = std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                             std::size_t{1}, std::multiplies<>());
    (void)model.vector(tensor.name, size);
    const std::size_t dot = tensor.name.rfind('.');
    if (tensor.shape.size() == 2 && dot != std::string::npos)
      walk_linear(model, {.name = tensor.name.substr(0, dot),
                          .rows = tensor.shape[0],
                          .cols = tensor.shape[1],
                          .bias = true});
  }
  if (const auto spec = engine::decoder_spec(model.config())) walk_decoder(model, *spec);
  (void)model.tokenizer();
  if (const auto card = models::derive_card(ModelId{"fuzz/model"}, model))
    (void)models::parse_card(models::to_toml(*card));
}

}  // namespace exo::fuzz
