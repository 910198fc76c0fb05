// A bounded first-in-first-out queue between threads; the call site decides what a full queue
// means.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/mutex.h"

namespace exo {

template <typename T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) : capacity_(capacity) { EXO_CHECK(capacity > 0); }

  // Adds `value`, or returns false if the queue is full or closed.
  [[nodiscard]] bool try_push(T value) EXO_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(value));
    }
    changed_.notify_all();
    return true;
  }

  // Waits for room; false once the queue is closed.
  [[nodiscard]] bool push(T value) EXO_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      while (!closed_ && items_.size() >= capacity_) changed_.wait(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(value));
    }
    changed_.notify_all();
    return true;
  }

  // Waits for an item; nothing once the queue is closed and drained.
  std::optional<T> pop() EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) changed_.wait(mutex_);
    return take();
  }

  // The same, at most until `deadline`.
  std::optional<T> pop_until(std::chrono::steady_clock::time_point deadline) EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) {
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
    }
    return take();
  }

  std::optional<T> try_pop() EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return take();
  }

  // No more items come in; waiting sides wake up, what is inside can still be taken.
  void close() EXO_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  std::size_t size() const EXO_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take() EXO_REQUIRES(mutex_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<T> items_ EXO_GUARDED_BY(mutex_);
  bool closed_ EXO_GUARDED_BY(mutex_) = false;
};

}  // namespace exo
