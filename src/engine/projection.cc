#include "engine/projection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.h"
#include "kernels/vector_ops.h"

namespace exo::engine {
Result<Projection> Projection::load(WeightLoader& loader, std::span<const LinearSpec> modules) {
  EXO_CHECK(!modules.empty() && modules.size() <= kMaxModules);
  Projection projection;
  std::vector<ModuleView> views;
  for (const LinearSpec& module : modules) {
    EXO_TRY(ModuleView view, loader.view(module));
    views.push_back(std::move(view));
    EXO_TRY(std::vector<float> bias, loader.bias(module));
    projection.biases_.push_back(std::move(bias));
  }
  const bool agree = std::ranges::all_of(
      views, [&](const auto& view) { return view.whole.format == views.front().whole.format; });
  const std::size_t together = agree ? views.size() : 1;
  for (std::size_t i = 0; i < views.size(); i += together) {
    EXO_TRY(kernels::Matrix matrix,
            loader.matrix(std::span(views).subspan(i, together), kernels::Arrangement::kStacked));
    projection.matrices_.push_back(std::move(matrix));
  }
  return projection;
}

void Projection::multiply(const Rows& x, std::span<const Output> outputs,
                          kernels::Precision precision, kernels::Activations& activations,
                          kernels::ThreadPool& pool) const {
  EXO_CHECK(outputs.size() == biases_.size());
  std::array<float*, kMaxModules> y;
  std::array<std::size_t, kMaxModules> strides;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    y[i] = outputs[i].y;
    strides[i] = outputs[i].stride;
  }
  const std::size_t parts = matrices_.size() == 1 ? outputs.size() : 1;
  std::array<bool, kMaxModules> done = {};
  for (std::size_t first = 0; first < matrices_.size(); ++first) {
    if (done[first]) continue;
    const kernels::Encoding& encoding = matrices_[first].encoding;
    kernels::prepare(activations, x.x, x.count, x.width, x.stride, encoding, precision, pool);
    std::array<kernels::Product, kMaxModules> products;
    std::size_t count = 0;
    for (std::size_t i = first; i < matrices_.size(); ++i) {
      if (done[i] || !kernels::same_preparation(matrices_[i].encoding, encoding, precision))
        continue;
      done[i] = true;
      products[count++] = {.matrix = &matrices_[i],
                           .y = std::span(y).subspan(i, parts),
                           .stride = std::span(strides).subspan(i, parts)};
    }
    kernels::multiply(std::span(products).first(count), activations, pool);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) add_bias(biases_[i], outputs[i], x.count, pool);
}

std::size_t Projection::bytes() const {
  std::size_t sum = 0;
  for (const auto& matrix : matrices_) sum += matrix.data.size();
  for (const auto& bias : biases_) sum += bias.size() * sizeof(float);
  return sum;
}

void add_bias(const std::vector<float>& bias, const Output& rows, std::size_t count,
              kernels::ThreadPool& pool) {
  if (bias.empty()) return;
  constexpr std::size_t kGrain = 16;
  pool.parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      kernels::add(bias.data(), rows.y + i * rows.stride, bias.size());
  });
}

}  // namespace exo::engine
