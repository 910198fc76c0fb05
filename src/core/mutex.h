// A mutex that clang's thread-safety analysis checks: mark what it protects with
// EXO_GUARDED_BY(mutex_).
#pragma once

#include <condition_variable>
#include <mutex>

#define EXO_CAPABILITY(name) __attribute__((capability(name)))
#define EXO_SCOPED_CAPABILITY __attribute__((scoped_lockable))
#define EXO_GUARDED_BY(mutex) __attribute__((guarded_by(mutex)))
#define EXO_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define EXO_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define EXO_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
#define EXO_EXCLUDES(...) __attribute__((locks_excluded(__VA_ARGS__)))
#define EXO_NO_THREAD_SAFETY_ANALYSIS __attribute__((no_thread_safety_analysis))

namespace exo {

class EXO_CAPABILITY("mutex") Mutex {
 public:
  void lock() EXO_ACQUIRE() { mutex_.lock(); }
  void unlock() EXO_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class EXO_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EXO_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() EXO_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex that the caller holds.
using ConditionVariable = std::condition_variable_any;

}  // namespace exo
