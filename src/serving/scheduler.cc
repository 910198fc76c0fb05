// One request at a time.
#include "serving/scheduler.h"

#include <algorithm>
#include <utility>

namespace exo::serving {
namespace {

class FifoScheduler final : public Scheduler {
 public:
  FifoScheduler(const GenerationContext& context, Emit emit)
      : context_(context), emit_(std::move(emit)) {}

  void submit(TaskId id, protocol::TextRequest request) override {
    auto generation = std::make_unique<Generation>(
        context_, std::move(request),
        [this, id](protocol::Chunk chunk) { emit_(id, std::move(chunk)); });
    waiting_.push_back(Entry{.id = std::move(id), .generation = std::move(generation)});
  }

  void cancel(const TaskId& id) override {
    const auto found = std::ranges::find(waiting_, id, &Entry::id);
    if (found == waiting_.end()) return;
    found->generation->cancel();
    waiting_.erase(found);
  }

  bool step() override {
    if (waiting_.empty()) return false;
    if (!waiting_.front().generation->step()) waiting_.pop_front();
    return !waiting_.empty();
  }

 private:
  struct Entry {
    TaskId id = {};
    std::unique_ptr<Generation> generation = {};
  };

  const GenerationContext& context_;
  const Emit emit_;
  std::deque<Entry> waiting_;  // the front one runs
};

}  // namespace

std::unique_ptr<Scheduler> make_fifo_scheduler(const GenerationContext& context,
                                               Scheduler::Emit emit) {
  return std::make_unique<FifoScheduler>(context, std::move(emit));
}

}  // namespace exo::serving
