#include "engine/parallel.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "core/check.h"
#include "engine/executor.h"

namespace exo::engine {
namespace {

enum class Operation : std::uint32_t { kPrefill, kDecode, kLogits, kTrim, kForget, kStop };

// What rank 0 tells the others before each step. More ids than fit follow in a message of their
// own.
struct Step {
  static constexpr std::size_t kInline = 10;

  Operation operation = Operation::kStop;
  std::uint32_t count = 0;     // of ids
  std::uint64_t sequence = 0;  // its number
  std::uint64_t length = 0;    // kTrim
  std::array<std::uint32_t, kInline> ids = {};
};
static_assert(sizeof(Step) == 64);

// A message is one for the largest prompt there is, not what a peer that has gone wrong says.
constexpr std::size_t kMaxIds = std::size_t{1} << 24;

class LeaderSequence;

class Leader final : public Model {
 public:
  explicit Leader(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
  ~Leader() override { (void)tell({.operation = Operation::kStop}, {}); }

  const ModelInfo& info() const override { return executor_->info(); }
  std::unique_ptr<Sequence> make_sequence() override;

  Result<void> prefill(Sequence& sequence, std::span<const std::uint32_t> ids) override {
    return step(Operation::kPrefill, sequence, ids,
                [&](Sequence& own) { return executor_->prefill(own, ids); });
  }
  Result<std::span<float>> decode(Sequence& sequence, std::span<const std::uint32_t> ids) override {
    return step(Operation::kDecode, sequence, ids,
                [&](Sequence& own) { return executor_->decode(own, ids); });
  }
  Result<std::vector<float>> logits(Sequence& sequence,
                                    std::span<const std::uint32_t> ids) override {
    return step(Operation::kLogits, sequence, ids,
                [&](Sequence& own) { return executor_->logits(own, ids); });
  }

  Result<void> tell(Step step, std::span<const std::uint32_t> ids) {
    step.count = static_cast<std::uint32_t>(ids.size());
    const bool fits = ids.size() <= Step::kInline;
    if (fits) std::ranges::copy(ids, step.ids.begin());
    EXO_TRY(executor_->ranks()->broadcast(std::as_writable_bytes(std::span(&step, 1))));
    if (fits) return {};
    std::vector<std::uint32_t> copy(ids.begin(), ids.end());
    return executor_->ranks()->broadcast(std::as_writable_bytes(std::span(copy)));
  }

 private:
  template <typename Run>
  auto step(Operation operation, Sequence& sequence, std::span<const std::uint32_t> ids,
            const Run& run) -> decltype(run(sequence));

  std::unique_ptr<Executor> executor_;
  std::uint64_t sequences_ = 0;
};

class LeaderSequence final : public Sequence {
 public:
  LeaderSequence(Leader& model, std::uint64_t number, std::unique_ptr<Sequence> own)
      : model_(model), number_(number), own_(std::move(own)) {}
  ~LeaderSequence() override {
    (void)model_.tell({.operation = Operation::kForget, .sequence = number_}, {});
  }

  std::size_t length() const override { return own_->length(); }
  std::size_t bytes() const override { return own_->bytes(); }
  Result<void> trim(std::size_t length) override {
    EXO_TRY(own_->trim(length));  // by the same rules on every rank: none fails alone
    return trim_others();
  }
  // Makes the other ranks forget what this one has not stored.
  Result<void> trim_others() {
    return model_.tell(
        {.operation = Operation::kTrim, .sequence = number_, .length = own_->length()}, {});
  }

  std::uint64_t number() const { return number_; }
  Sequence& own() { return *own_; }

 private:
  Leader& model_;
  std::uint64_t number_;
  std::unique_ptr<Sequence> own_;
};

std::unique_ptr<Sequence> Leader::make_sequence() {
  return std::make_unique<LeaderSequence>(*this, sequences_++, executor_->make_sequence());
}

template <typename Run>
auto Leader::step(Operation operation, Sequence& sequence, std::span<const std::uint32_t> ids,
                  const Run& run) -> decltype(run(sequence)) {
  auto* const own = dynamic_cast<LeaderSequence*>(&sequence);
  EXO_CHECK(own != nullptr);
  EXO_TRY(tell({.operation = operation, .sequence = own->number()}, ids));
  auto result = run(own->own());
  if (!result) (void)own->trim_others();
  return result;
}

class Follower {
 public:
  explicit Follower(Executor& executor) : executor_(executor) {}

  Result<void> run() {
    while (true) {
      Step step;
      EXO_TRY(executor_.ranks()->broadcast(std::as_writable_bytes(std::span(&step, 1))));
      if (step.operation == Operation::kStop) return {};
      if (step.count > kMaxIds) return fail(ErrorCode::kInternal, "rank 0 sends damaged steps");
      std::vector<std::uint32_t> ids(step.count);
      if (step.count <= Step::kInline) {
        std::copy_n(step.ids.begin(), step.count, ids.begin());
      } else {
        EXO_TRY(executor_.ranks()->broadcast(std::as_writable_bytes(std::span(ids))));
      }
      execute(step, ids);
    }
  }

 private:
  // An error is rank 0's, too, which tells its caller, or it has ended the group, which the next
  // step shows.
  void execute(const Step& step, std::span<const std::uint32_t> ids) {
    auto& sequence = sequences_[step.sequence];
    if (!sequence) sequence = executor_.make_sequence();
    switch (step.operation) {
      case Operation::kPrefill:
        (void)executor_.prefill(*sequence, ids);
        return;
      case Operation::kDecode:
        (void)executor_.decode(*sequence, ids);
        return;
      case Operation::kLogits:
        (void)executor_.logits(*sequence, ids);
        return;
      case Operation::kTrim:
        (void)sequence->trim(step.length);
        return;
      case Operation::kForget:
        sequences_.erase(step.sequence);
        return;
      case Operation::kStop:
        return;
    }
  }

  Executor& executor_;
  std::map<std::uint64_t, std::unique_ptr<Sequence>> sequences_;
};

Result<std::unique_ptr<Executor>> load_shard(const models::Checkpoint& checkpoint,
                                             kernels::ThreadPool& pool, const LoadOptions& options,
                                             comm::ProcessGroup group, const Layout& layout) {
  EXO_TRY(const DecoderSpec whole, decoder_spec(checkpoint.config()));
  EXO_TRY(check_layout(layout, whole.layers.size()));
  std::size_t count = 0;
  for (const Stage& stage : layout.stages) count += stage.ranks.size();
  if (count != group.size())
    return fail(ErrorCode::kInvalidInput, "the layout and the process group differ in their ranks");
  EXO_TRY(auto executor, Executor::load(checkpoint, pool, options,
                                        std::make_unique<Ranks>(std::move(group), layout), layout));
  EXO_TRY(executor->ranks()->barrier());
  return executor;
}

}  // namespace

Result<std::unique_ptr<Model>> load_leader(const models::Checkpoint& checkpoint,
                                           kernels::ThreadPool& pool, const LoadOptions& options,
                                           comm::ProcessGroup group, const Layout& layout) {
  EXO_CHECK(group.rank() == 0);
  EXO_TRY(auto executor, load_shard(checkpoint, pool, options, std::move(group), layout));
  return std::make_unique<Leader>(std::move(executor));
}

Result<void> follow(const models::Checkpoint& checkpoint, kernels::ThreadPool& pool,
                    const LoadOptions& options, comm::ProcessGroup group, const Layout& layout) {
  EXO_TRY(auto executor, load_shard(checkpoint, pool, options, std::move(group), layout));
  return Follower(*executor).run();
}

}  // namespace exo::engine
