// What the ranks of one model tell one another in a step: sums, hidden states, logits, and what
// rank 0 wants done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "core/result.h"
#include "engine/shard.h"

namespace exo::engine {

// One rank's view. Errors of all: as comm::ProcessGroup; the group is over then.
class Ranks {
 public:
  // `layout` was checked. Owns the group from here on.
  Ranks(comm::ProcessGroup group, const Layout& layout);

  std::size_t rank() const { return group_.rank(); }
  bool leads() const { return group_.rank() == 0; }
  std::size_t size() const { return group_.size(); }
  // Whether the stage's layers are split over several ranks.
  bool splits_layers() const { return stage_.size() > 1; }

  // rows = Σ over the ranks of the stage.
  Result<void> sum(std::span<float> rows);
  // The hidden state, from the stage before and to the stage behind.
  Result<void> receive_hidden(std::span<float> hidden);
  Result<void> send_hidden(std::span<const float> hidden);
  // f32[count, own tokens] of the last stage's ranks becomes f32[count, vocabulary] at rank 0.
  // `own` is empty at other stages, `all` at other ranks than 0.
  Result<void> collect_logits(std::span<const float> own, std::size_t count, std::size_t vocabulary,
                              std::span<float> all);

  // From rank 0 to all.
  Result<void> broadcast(std::span<std::byte> bytes) { return group_.broadcast(0, bytes); }
  Result<void> barrier() { return group_.barrier(); }
  void abort() { group_.abort(); }

 private:
  comm::ProcessGroup group_, stage_;
  std::vector<std::size_t> last_stage_;  // its ranks
  // Whom the hidden state comes from, and who gets it; each rank sends to every size-th of the next
  // stage.
  std::size_t before_ = 0;
  std::vector<std::size_t> behind_;
  std::vector<float> part_;  // another rank's logits; reused
};

}  // namespace exo::engine
