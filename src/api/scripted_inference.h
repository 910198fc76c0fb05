// An Inference whose generations a test drives. Only tests include it.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "core/mutex.h"

namespace exo::api {

inline protocol::Chunk token(std::string text) {
  return protocol::TokenChunk{.text = std::move(text)};
}

inline ModelState model_named(std::string id, bool running = true) {
  ModelState state{.model = {.id = {id}, .created = 1700000000}, .running = running};
  state.model.card.id = {std::move(id)};
  return state;
}

class ScriptedInference final : public Inference {
 public:
  // What a test sets before the server starts.
  std::vector<ModelState> known = {model_named("org/m")};
  std::optional<Error> refuses = {};  // what generate() says
  std::string problem = {};
  bool echoes = false;  // answers at once with the last message's text

  // What a test does and sees, on a thread of its own. All waits end after some seconds.

  // The request of generation number `index`; nothing if it was not started in time.
  std::optional<protocol::TextRequest> started(std::size_t index) {
    MutexLock lock(mutex_);
    if (!wait([&]() EXO_REQUIRES(mutex_) { return runs_.size() > index; })) return std::nullopt;
    return runs_[index].request;
  }
  std::size_t count() {
    MutexLock lock(mutex_);
    return runs_.size();
  }
  // False: the generation is destroyed.
  bool send(std::size_t index, protocol::Chunk chunk) {
    MutexLock lock(mutex_);
    Run& run = runs_.at(index);
    if (run.destroyed) return false;
    run.on_chunk(std::move(chunk));
    return true;
  }
  // Whether its Generation goes.
  bool destroyed(std::size_t index) {
    MutexLock lock(mutex_);
    return wait([&]() EXO_REQUIRES(mutex_) { return runs_.at(index).destroyed; });
  }
  std::vector<std::string> cancelled_ids() {
    MutexLock lock(mutex_);
    return cancelled_;
  }

  std::vector<ModelState> models() const override { return known; }
  Result<models::StoredModel> resolve(std::string_view name) const override {
    const auto found = std::ranges::find(
        known, name,
        [](const ModelState& state) -> std::string_view { return state.model.id.value; });
    if (name == "m") return fail(ErrorCode::kInvalidInput, "\"m\" may mean a/m or b/m", "m");
    if (found == known.end()) return fail(ErrorCode::kNotFound, "no such model");
    return found->model;
  }
  Result<std::unique_ptr<Generation>> generate(CommandId id, protocol::TextRequest request,
                                               OnChunk on_chunk) override {
    MutexLock lock(mutex_);
    if (refuses) return std::unexpected(*refuses);
    if (echoes) {
      on_chunk(token(request.messages.back().content));
      on_chunk(protocol::FinishChunk{});
    }
    runs_.push_back(
        {.id = std::move(id), .request = std::move(request), .on_chunk = std::move(on_chunk)});
    changed_.notify_all();
    return std::make_unique<ScriptedGeneration>(*this, runs_.size() - 1);
  }
  bool cancel(const CommandId& id) override {
    MutexLock lock(mutex_);
    const bool known_id = std::ranges::any_of(runs_, [&](const Run& run) { return run.id == id; });
    if (known_id) cancelled_.push_back(id.value);
    return known_id;
  }
  std::string health_problem() const override { return problem; }

 private:
  struct Run {
    CommandId id = {};
    protocol::TextRequest request = {};
    OnChunk on_chunk = {};
    bool destroyed = false;
  };
  class ScriptedGeneration final : public Generation {
   public:
    ScriptedGeneration(ScriptedInference& owner, std::size_t index)
        : owner_(owner), index_(index) {}
    ~ScriptedGeneration() override {
      MutexLock lock(owner_.mutex_);
      owner_.runs_[index_].destroyed = true;
      owner_.changed_.notify_all();
    }
    void cancel() override {}

   private:
    ScriptedInference& owner_;
    std::size_t index_;
  };

  template <typename Condition>
  bool wait(Condition condition) EXO_REQUIRES(mutex_) {
    return changed_.wait_for(mutex_, std::chrono::seconds(5), condition);
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Run> runs_ EXO_GUARDED_BY(mutex_);
  std::vector<std::string> cancelled_ EXO_GUARDED_BY(mutex_);
};

}  // namespace exo::api
