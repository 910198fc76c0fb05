#include "engine/ranks.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace exo::engine {
namespace {

std::size_t stage_of(const Layout& layout, std::size_t rank) {
  for (std::size_t i = 0; i < layout.stages.size(); ++i) {
    const auto& ranks = layout.stages[i].ranks;
    if (std::ranges::find(ranks, rank) != ranks.end()) return i;
  }
  EXO_CHECK(false && "the layout was checked");
  std::unreachable();
}

}  // namespace

Ranks::Ranks(comm::ProcessGroup group, const Layout& layout)
    : group_(std::move(group)),
      stage_(group_.subgroup(layout.stages[stage_of(layout, group_.rank())].ranks)),
      last_stage_(layout.stages.back().ranks) {
  const std::size_t stage = stage_of(layout, group_.rank()), own = stage_.rank();
  if (stage > 0) {
    const auto& ranks = layout.stages[stage - 1].ranks;
    before_ = ranks[own % ranks.size()];
  }
  if (stage + 1 < layout.stages.size()) {
    const auto& ranks = layout.stages[stage + 1].ranks;
    for (std::size_t i = own; i < ranks.size(); i += stage_.size()) behind_.push_back(ranks[i]);
  }
}

Result<void> Ranks::sum(std::span<float> rows) { return stage_.all_reduce(rows); }

Result<void> Ranks::receive_hidden(std::span<float> hidden) {
  return group_.receive(before_, std::as_writable_bytes(hidden));
}

Result<void> Ranks::send_hidden(std::span<const float> hidden) {
  for (const std::size_t rank : behind_) {
    EXO_TRY(group_.send(rank, std::as_bytes(hidden)));
  }
  return {};
}

Result<void> Ranks::collect_logits(std::span<const float> own, std::size_t count,
                                   std::size_t vocabulary, std::span<float> all) {
  if (!leads()) return own.empty() ? Result<void>() : group_.send(0, std::as_bytes(own));
  const std::size_t parts = last_stage_.size();
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = vocabulary * part / parts,
                      width = vocabulary * (part + 1) / parts - first;
    std::span<const float> from = own;
    if (last_stage_[part] != 0) {
      part_.resize(count * width);
      EXO_TRY(group_.receive(last_stage_[part], std::as_writable_bytes(std::span(part_))));
      from = part_;
    }
    for (std::size_t row = 0; row < count; ++row)
      std::ranges::copy(from.subspan(row * width, width), all.begin() + row * vocabulary + first);
  }
  return {};
}

}  // namespace exo::engine
