// One model on several ranks: rank 0 has a Model like any other, and each of its calls is a step
// that the other ranks execute with it.
#pragma once

#include <memory>

#include "comm/process_group.h"
#include "core/result.h"
#include "engine/model.h"
#include "engine/shard.h"

namespace exo::engine {

// Rank 0. Loads its shard and waits until all ranks have theirs; the model borrows `pool`. Errors:
// as Model::load(); kInvalidInput, kUnsupported: the model cannot be split so; kUnavailable:
// another rank has failed, `subject` says which. The model's calls have kUnavailable beside their
// own errors: the group is over then, and so is the model.
Result<std::unique_ptr<Model>> load_leader(const models::Checkpoint& checkpoint,
                                           kernels::ThreadPool& pool, const LoadOptions& options,
                                           comm::ProcessGroup group, const Layout& layout);

// Every other rank: loads its shard and follows rank 0 until it ends the model. Errors: as above.
Result<void> follow(const models::Checkpoint& checkpoint, kernels::ThreadPool& pool,
                    const LoadOptions& options, comm::ProcessGroup group, const Layout& layout);

}  // namespace exo::engine
