// Asks a checkpoint everything that the program asks of one.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "core/overloaded.h"
#include "engine/decoder_spec.h"
#include "models/card.h"
#include "models/checkpoint.h"

namespace exo::fuzz {

// Reads every byte, so that a view that ends outside of its file does not stay unseen.
inline void touch(std::span<const std::byte> bytes) {
  volatile unsigned sum = 0;
  for (const std::byte byte : bytes) sum = sum + std::to_integer<unsigned>(byte);
}

inline void walk_linear(const models::Checkpoint& model, const engine::LinearSpec& linear) {
  if (const auto view = model.matrix(linear.name, linear.rows, linear.cols)) {
    touch(view->codes);
    touch(view->scales);
    touch(view->biases);
    model.drop(view->codes);
  }
  if (linear.bias) (void)model.vector(linear.name + ".bias", linear.rows);
}

inline void walk_decoder(const models::Checkpoint& model, const engine::DecoderSpec& spec) {
  walk_linear(model, {.name = spec.embedding, .rows = spec.vocab_size, .cols = spec.hidden_size});
  if (spec.head) walk_linear(model, *spec.head);
  for (const engine::RopeSpec& rope : spec.ropes) (void)engine::frequencies(rope);
  for (const engine::LayerSpec& layer : spec.layers) {
    (void)model.vector(layer.mixer_norm, spec.hidden_size);
    (void)model.vector(layer.feed_forward_norm, spec.hidden_size);
    std::visit(
        [&](const engine::AttentionSpec& attention) {
          for (const auto* linear : {&attention.q, &attention.k, &attention.v, &attention.o})
            walk_linear(model, *linear);
        },
        layer.mixer);
    std::visit(
        [&](const engine::SwigluSpec& swiglu) {
          for (const auto* linear : {&swiglu.gate, &swiglu.up, &swiglu.down})
            walk_linear(model, *linear);
        },
        layer.feed_forward);
  }
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
