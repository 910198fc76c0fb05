// Keys and values of one sequence, all layers. The address space for the whole context is reserved
// at first use and memory comes page by page as positions are written, so that growing copies
// nothing.
//
// A layer with an attention window keeps its place for every position too, but the pages of those
// that no later query can see go back to the system: as small as a ring, and keys stay in order.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/result.h"
#include "kernels/attention.h"
#include "kernels/encoding.h"

namespace exo::engine {

// The heads that one layer keeps.
struct KvShape {
  std::size_t kv_heads = 0, head_dim = 0;
  std::size_t window = 0;  // > 0: a query sees the last `window` positions, itself included

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

class KvCache {
 public:
  // `context_length`: the most positions there can be.
  KvCache(std::vector<KvShape> layers, kernels::FloatType type, std::size_t context_length);
  KvCache(KvCache&&) noexcept = default;
  KvCache& operator=(KvCache&&) noexcept = default;

  std::size_t length() const { return length_; }
  // Makes room for `count` positions behind length(). Errors: kContextLength; kNoSpace: the system
  // grants no address space for them. The cache stays as it was.
  Result<void> reserve(std::size_t count);
  // Counts `count` positions as written, of those that reserve() made room for.
  void advance(std::size_t count);
  // Forgets positions from `length` on; beyond the end it changes nothing. Errors: kUnsupported: a
  // window has moved on, and what the positions before `length` would see is gone.
  Result<void> trim(std::size_t length);

  // Valid after reserve() until the cache dies.
  kernels::KvView layer(std::size_t index) const;
  // Of the positions written so far and still kept, in whole steps of kGrowth.
  std::size_t bytes() const;
  std::size_t bytes_per_position() const { return bytes_per_position_; }

  static constexpr std::size_t kGrowth = 256;

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* address) const;
  };

  std::size_t bytes_per_position(const KvShape& shape) const;
  void drop_unseen();

  std::vector<KvShape> layers_;
  kernels::FloatType type_;
  std::size_t context_length_;
  std::size_t bytes_per_position_ = 0;
  std::size_t length_ = 0, highest_ = 0;  // highest_: the longest it ever was
  std::size_t capacity_ = 0;              // positions of address space; 0: none yet
  std::unique_ptr<std::byte, Unmap> memory_{nullptr, Unmap{}};
  std::vector<std::size_t> offsets_;  // bytes per position before each layer's keys
  std::vector<std::size_t> dropped_;  // of each layer: positions before it are gone
};

}  // namespace exo::engine
