// Time as an argument: the monotonic clock, and one that tests move by hand.
#pragma once

#include <chrono>

namespace exo {

using MonotonicTime = std::chrono::steady_clock::time_point;

// Where code reads the time; two real sides: the system's and a test's.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
};

class ManualClock final : public Clock {
 public:
  MonotonicTime now() const override { return now_; }
  void advance(std::chrono::nanoseconds by) { now_ += by; }

 private:
  MonotonicTime now_{};
};

inline double seconds_between(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace exo
