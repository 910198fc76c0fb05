#include "engine/kv_cache.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "core/bytes.h"
#include "core/check.h"

namespace exo::engine {

void KvCache::Unmap::operator()(std::byte* address) const { munmap(address, bytes); }

KvCache::KvCache(std::vector<KvShape> layers, kernels::FloatType type, std::size_t context_length)
    : layers_(std::move(layers)), type_(type), context_length_(context_length) {
  for (const KvShape& shape : layers_) {
    offsets_.push_back(bytes_per_position_);
    bytes_per_position_ += bytes_per_position(shape);
  }
  dropped_.resize(layers_.size());
}

std::size_t KvCache::bytes_per_position(const KvShape& shape) const {
  return 2 * shape.kv_heads * shape.head_dim * kernels::size_of(type_);
}

Result<void> KvCache::reserve(std::size_t count) {
  if (count > context_length_ - length_)
    return fail(ErrorCode::kContextLength,
                fmt::format("{} tokens do not fit into the context of {}",
                            checked_add(length_, count).value_or(count), context_length_));
  const std::size_t needed = length_ + count;
  if (needed <= capacity_) return {};
  const auto no_space = [&] {
    return fail(ErrorCode::kNoSpace, fmt::format("no memory for a cache of {} tokens", needed));
  };
  if (capacity_ > 0) return no_space();  // what could be had was taken at first use
  // Systems that limit address space may still grant a shorter context.
  for (std::size_t capacity = context_length_; capacity >= needed; capacity /= 2) {
    const auto bytes = checked_mul(capacity, bytes_per_position_);
    if (!bytes) continue;
    void* address = mmap(nullptr, *bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) continue;
    // Heads lie a whole context apart: huge pages would take memory for positions never written.
    madvise(address, *bytes, MADV_NOHUGEPAGE);
    memory_ = {static_cast<std::byte*>(address), Unmap{*bytes}};
    capacity_ = capacity;
    return {};
  }
  return no_space();
}

void KvCache::advance(std::size_t count) {
  EXO_CHECK(count <= capacity_ - length_);
  length_ += count;
  highest_ = std::max(highest_, length_);
  drop_unseen();
}

// Gives back, of layers with a window, whole steps of positions that the next query does not see.
void KvCache::drop_unseen() {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const KvShape& shape = layers_[i];
    if (shape.window == 0 || length_ < shape.window) continue;
    const std::size_t unseen = (length_ + 1 - shape.window) / kGrowth * kGrowth;
    if (unseen <= dropped_[i]) continue;
    const std::size_t row = shape.head_dim * kernels::size_of(type_), stride = row * capacity_;
    for (std::size_t head = 0; head < 2 * shape.kv_heads; ++head) {
      const std::size_t place = offsets_[i] * capacity_ + head * stride;
      const std::size_t begin = round_up(place + dropped_[i] * row, page),
                        end = (place + unseen * row) / page * page;
      if (begin < end) madvise(memory_.get() + begin, end - begin, MADV_DONTNEED);
    }
    dropped_[i] = unseen;
  }
}

Result<void> KvCache::trim(std::size_t length) {
  if (length >= length_) return {};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    // The next query, at `length`, sees positions from length + 1 − window on.
    const std::size_t first = length + 1 - std::min(length + 1, layers_[i].window);
    if (dropped_[i] > first)
      return fail(ErrorCode::kUnsupported,
                  fmt::format("the sequence cannot go back to {} tokens: the attention window has "
                              "moved past them",
                              length));
  }
  length_ = length;
  return {};
}

kernels::KvView KvCache::layer(std::size_t index) const {
  const KvShape& shape = layers_[index];
  std::byte* keys = memory_.get() + offsets_[index] * capacity_;
  const std::size_t size = shape.kv_heads * shape.head_dim * kernels::size_of(type_) * capacity_;
  return {.type = type_,
          .keys = keys,
          .values = keys + size,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .capacity = capacity_};
}

std::size_t KvCache::bytes() const {
  const std::size_t written = std::min(round_up(highest_, kGrowth), capacity_);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    sum += (written - std::min(written, dropped_[i])) * bytes_per_position(layers_[i]);
  return sum;
}

}  // namespace exo::engine
