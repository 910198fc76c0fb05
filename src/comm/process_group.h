// The ranks that compute one model together, and what they exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/channel.h"
#include "core/result.h"

namespace exo::comm {

// Every rank calls the same operations in the same order, each from one thread at a time. An
// operation waits for the others: it spins for a moment, then sleeps. Its first error ends the
// group for good: later operations fail at once, and closed channels tell the other ranks. Errors
// of all operations: kUnavailable: a rank is gone; kCancelled: abort(); `subject` is the rank.
class ProcessGroup {
 public:
  // channels[r] leads to rank r; channels[rank] is empty. Errors: kIo: no descriptors left.
  static Result<ProcessGroup> make(std::size_t rank,
                                   std::vector<std::unique_ptr<Channel>> channels);
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  ~ProcessGroup();

  // Some of the ranks, this one among them, as a group of their own, numbered in the order given.
  // It shares the channels and the end of this group, and is used in turns with it.
  ProcessGroup subgroup(std::span<const std::size_t> ranks) const;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return members_.size(); }

  Result<void> send(std::size_t to, std::span<const std::byte> bytes);
  Result<void> receive(std::size_t from, std::span<std::byte> bytes);

  // values = Σ over the ranks in their order, in f32: the same bits on every rank. Up to 64 KiB
  // every rank sends all to all; above, each sums its part and hands it round.
  Result<void> all_reduce(std::span<float> values);
  // `all` holds the ranks' parts one after another, part r of sizes[r] bytes; each rank has filled
  // in its own.
  Result<void> all_gather(std::span<std::byte> all, std::span<const std::size_t> sizes);
  // The same, to rank `root` only: what the others hold in `all` beside their own part stays.
  Result<void> gather(std::size_t root, std::span<std::byte> all,
                      std::span<const std::size_t> sizes);
  Result<void> broadcast(std::size_t root, std::span<std::byte> bytes);
  Result<void> barrier();

  // Ends what is waiting and all that comes after, here and on the other ranks. From any thread.
  void abort();

 private:
  // One exchange with one rank; either span may be empty.
  struct Transfer {
    std::size_t peer = 0;
    std::span<const std::byte> out = {};
    std::span<std::byte> in = {};
    bool flushed = true;

    bool done() const { return out.empty() && in.empty() && flushed; }
  };

  struct Shared;  // by a group and its subgroups

  ProcessGroup(std::size_t rank, std::vector<std::size_t> members, std::shared_ptr<Shared> shared);

  Channel& channel(std::size_t rank) const;
  // Runs all transfers to their ends.
  Result<void> exchange(std::span<Transfer> transfers);
  Result<void> run(std::span<Transfer> transfers);
  // One attempt at each; whether anything moved.
  Result<bool> advance(std::span<Transfer> transfers);
  Result<bool> advance(Transfer& transfer);
  Result<void> sleep(std::span<const Transfer> transfers);
  Result<void> reduce_directly(std::span<float> values);
  Result<void> reduce_by_parts(std::span<float> values);
  // Empty transfers, one per other rank.
  std::span<Transfer> transfers_to_all();

  std::size_t rank_;
  std::vector<std::size_t> members_;  // the ranks of the whole group that this one's ranks are
  std::shared_ptr<Shared> shared_;
  std::vector<Transfer> transfers_;  // reused
  std::vector<float> received_;      // reused: the other ranks' values
};

}  // namespace exo::comm
