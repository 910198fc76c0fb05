// Which request runs when. One at a time in order of arrival; a batching one takes its place later.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "core/id.h"
#include "protocol/request.h"
#include "serving/generation.h"

namespace exo::serving {

// Used by one thread.
class Scheduler {
 public:
  using Emit = std::function<void(const TaskId& id, protocol::Chunk chunk)>;

  virtual ~Scheduler() = default;
  virtual void submit(TaskId id, protocol::TextRequest request) = 0;
  // Its terminal chunk is emitted before this returns; nothing if the task is unknown.
  virtual void cancel(const TaskId& id) = 0;
  // Does a bounded piece of work. False: there is none.
  virtual bool step() = 0;
};

// `context` must outlive it.
std::unique_ptr<Scheduler> make_fifo_scheduler(const GenerationContext& context,
                                               Scheduler::Emit emit);

}  // namespace exo::serving
