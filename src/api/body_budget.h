// Bounds the memory that all clients together take by sending bodies. Not thread-safe: the server's
// thread owns it.
#pragma once

#include <cstdint>

namespace exo::api {

class BodyBudget {
 public:
  explicit BodyBudget(std::uint64_t bytes) : left_(bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  std::uint64_t left() const { return left_; }

  // What one request has taken; given back when it goes. Must not outlive the budget.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    ~Share() { budget_.left_ += taken_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // False: there is not so much left, and nothing was taken.
    bool take(std::uint64_t bytes) {
      if (bytes > budget_.left_) return false;
      budget_.left_ -= bytes;
      taken_ += bytes;
      return true;
    }

   private:
    BodyBudget& budget_;
    std::uint64_t taken_ = 0;
  };

 private:
  std::uint64_t left_;
};

}  // namespace exo::api
