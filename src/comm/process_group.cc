#include "comm/process_group.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "core/check.h"
#include "core/descriptor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace exo::comm {
namespace {

constexpr std::size_t kDirectBytes = std::size_t{64} << 10;
// Long enough for an exchange between ranks that compute alike, short enough to cost nothing.
constexpr std::chrono::microseconds kSpin{100};
constexpr int kSpinsPerLook = 64;  // at the clock

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The part of `count` values that rank `rank` of `size` sums.
std::pair<std::size_t, std::size_t> part_of(std::size_t count, std::size_t rank, std::size_t size) {
  return {count * rank / size, count * (rank + 1) / size};
}

void add(std::span<float> sum, std::span<const float> values) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

Error of_rank(Error error, std::size_t rank) {
  error.subject = fmt::format("rank {}", rank);
  return error;
}

}  // namespace

struct ProcessGroup::Shared {
  std::vector<std::unique_ptr<Channel>> channels;
  Descriptor bell;  // an eventfd that abort() rings
  std::atomic<bool> aborted = false;
  std::optional<Error> failure = {};

  void close_all() {
    for (const auto& channel : channels)
      if (channel) channel->close();
  }
};

Result<ProcessGroup> ProcessGroup::make(std::size_t rank,
                                        std::vector<std::unique_ptr<Channel>> channels) {
  EXO_CHECK(rank < channels.size() && channels[rank] == nullptr);
  Descriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell.get() < 0) return fail_errno(errno, "cannot make a process group");
  std::vector<std::size_t> members(channels.size());
  std::iota(members.begin(), members.end(), std::size_t{0});
  return ProcessGroup(rank, std::move(members),
                      std::make_shared<Shared>(std::move(channels), std::move(bell)));
}

ProcessGroup::ProcessGroup(std::size_t rank, std::vector<std::size_t> members,
                           std::shared_ptr<Shared> shared)
    : rank_(rank), members_(std::move(members)), shared_(std::move(shared)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

ProcessGroup ProcessGroup::subgroup(std::span<const std::size_t> ranks) const {
  const auto own = std::ranges::find(ranks, rank_);
  EXO_CHECK(own != ranks.end());
  std::vector<std::size_t> members;
  for (const std::size_t rank : ranks) members.push_back(members_.at(rank));
  return {static_cast<std::size_t>(own - ranks.begin()), std::move(members), shared_};
}

Channel& ProcessGroup::channel(std::size_t rank) const {
  return *shared_->channels[members_[rank]];
}

void ProcessGroup::abort() {
  shared_->aborted = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(shared_->bell.get(), &one, sizeof one);
  shared_->close_all();
}

Result<bool> ProcessGroup::advance(Transfer& transfer) {
  Channel& to = channel(transfer.peer);
  std::size_t moved = 0;
  if (!transfer.in.empty()) {
    EXO_TRY(const std::size_t got, to.receive_some(transfer.in));
    transfer.in = transfer.in.subspan(got);
    moved += got;
  }
  if (!transfer.out.empty()) {
    EXO_TRY(const std::size_t sent, to.send_some(transfer.out));
    transfer.out = transfer.out.subspan(sent);
    transfer.flushed = false;
    moved += sent;
  }
  if (transfer.out.empty() && !transfer.flushed) {
    EXO_TRY(transfer.flushed, to.flush());
    moved += transfer.flushed ? 1 : 0;
  }
  return moved > 0;
}

Result<bool> ProcessGroup::advance(std::span<Transfer> transfers) {
  bool moved = false;
  for (Transfer& transfer : transfers) {
    if (transfer.done()) continue;
    auto result = advance(transfer);
    if (!result)
      return std::unexpected(of_rank(std::move(result.error()), members_[transfer.peer]));
    moved |= *result;
  }
  return moved;
}

Result<void> ProcessGroup::sleep(std::span<const Transfer> transfers) {
  std::vector<pollfd> waited = {{.fd = shared_->bell.get(), .events = POLLIN, .revents = 0}};
  std::vector<std::size_t> peers;
  bool ready = false;
  for (const Transfer& transfer : transfers) {
    if (transfer.done()) continue;
    const Doorbell bell = channel(transfer.peer)
                              .arm({.to_send = !transfer.out.empty() || !transfer.flushed,
                                    .to_receive = !transfer.in.empty()});
    ready |= bell.ready;
    waited.push_back({.fd = bell.fd, .events = bell.events, .revents = 0});
    peers.push_back(transfer.peer);
  }
  // Without a limit: a death closes the channels, and abort() rings the bell.
  while (::poll(waited.data(), waited.size(), ready ? 0 : -1) < 0)
    if (errno != EINTR) return fail_errno(errno, "cannot wait for the other ranks");
  for (std::size_t i = 0; i < peers.size(); ++i) {
    auto result = channel(peers[i]).disarm(waited[i + 1].revents);
    if (!result) return std::unexpected(of_rank(std::move(result.error()), members_[peers[i]]));
  }
  return {};
}

Result<void> ProcessGroup::run(std::span<Transfer> transfers) {
  using Clock = std::chrono::steady_clock;
  const auto done = [&] { return std::ranges::all_of(transfers, &Transfer::done); };
  while (true) {
    const auto started = Clock::now();
    for (int spins = 1;; ++spins) {
      EXO_TRY(const bool moved, advance(transfers));
      if (done()) return {};
      if (shared_->aborted.load(std::memory_order_relaxed))
        return fail(ErrorCode::kCancelled, "the process group was ended");
      if (moved) break;
      relax();
      if (spins % kSpinsPerLook == 0 && Clock::now() - started > kSpin) {
        EXO_TRY(sleep(transfers));
        break;
      }
    }
  }
}

Result<void> ProcessGroup::exchange(std::span<Transfer> transfers) {
  std::optional<Error>& failure = shared_->failure;
  if (failure) return std::unexpected(*failure);
  auto result = run(transfers);
  if (result) return result;
  failure = shared_->aborted ? Error{ErrorCode::kCancelled, "the process group was ended"}
                             : std::move(result.error());
  shared_->close_all();
  return std::unexpected(*failure);
}

std::span<ProcessGroup::Transfer> ProcessGroup::transfers_to_all() {
  transfers_.clear();
  for (std::size_t peer = 0; peer < size(); ++peer)
    if (peer != rank_) transfers_.push_back({.peer = peer});
  return transfers_;
}

Result<void> ProcessGroup::send(std::size_t to, std::span<const std::byte> bytes) {
  EXO_CHECK(to < size() && to != rank_);
  Transfer transfer{.peer = to, .out = bytes};
  return exchange(std::span(&transfer, 1));
}

Result<void> ProcessGroup::receive(std::size_t from, std::span<std::byte> bytes) {
  EXO_CHECK(from < size() && from != rank_);
  Transfer transfer{.peer = from, .in = bytes};
  return exchange(std::span(&transfer, 1));
}

Result<void> ProcessGroup::all_reduce(std::span<float> values) {
  if (size() == 1 || values.empty()) return {};
  return values.size_bytes() <= kDirectBytes ? reduce_directly(values) : reduce_by_parts(values);
}

Result<void> ProcessGroup::reduce_directly(std::span<float> values) {
  const std::size_t count = values.size();
  if (received_.size() < count * size()) received_.resize(count * size());
  const auto slot = [&](std::size_t rank) {
    return std::span(received_).subspan(rank * count, count);
  };
  const auto transfers = transfers_to_all();
  for (Transfer& transfer : transfers) {
    transfer.out = std::as_bytes(values);
    transfer.in = std::as_writable_bytes(slot(transfer.peer));
  }
  EXO_TRY(exchange(transfers));
  std::ranges::copy(values, slot(rank_).begin());
  std::ranges::copy(slot(0), values.begin());
  for (std::size_t rank = 1; rank < size(); ++rank) add(values, slot(rank));
  return {};
}

Result<void> ProcessGroup::reduce_by_parts(std::span<float> values) {
  const auto part = [&](std::size_t rank) {
    const auto [begin, end] = part_of(values.size(), rank, size());
    return values.subspan(begin, end - begin);
  };
  const std::span<float> own = part(rank_);
  if (received_.size() < own.size() * size()) received_.resize(own.size() * size());
  const auto slot = [&](std::size_t rank) {
    return std::span(received_).subspan(rank * own.size(), own.size());
  };
  auto transfers = transfers_to_all();
  for (Transfer& transfer : transfers) {
    transfer.out = std::as_bytes(part(transfer.peer));
    transfer.in = std::as_writable_bytes(slot(transfer.peer));
  }
  EXO_TRY(exchange(transfers));
  std::ranges::copy(own, slot(rank_).begin());
  std::ranges::copy(slot(0), own.begin());
  for (std::size_t rank = 1; rank < size(); ++rank) add(own, slot(rank));

  transfers = transfers_to_all();
  for (Transfer& transfer : transfers) {
    transfer.out = std::as_bytes(own);
    transfer.in = std::as_writable_bytes(part(transfer.peer));
  }
  return exchange(transfers);
}

Result<void> ProcessGroup::all_gather(std::span<std::byte> all,
                                      std::span<const std::size_t> sizes) {
  EXO_CHECK(sizes.size() == size());
  const auto transfers = transfers_to_all();
  std::vector<std::span<std::byte>> parts;
  for (std::size_t rank = 0, at = 0; rank < size(); at += sizes[rank++])
    parts.push_back(all.subspan(at, sizes[rank]));
  for (Transfer& transfer : transfers) {
    transfer.out = parts[rank_];
    transfer.in = parts[transfer.peer];
  }
  return exchange(transfers);
}

Result<void> ProcessGroup::gather(std::size_t root, std::span<std::byte> all,
                                  std::span<const std::size_t> sizes) {
  EXO_CHECK(sizes.size() == size() && root < size());
  transfers_.clear();
  for (std::size_t rank = 0, at = 0; rank < size(); at += sizes[rank++]) {
    const auto part = all.subspan(at, sizes[rank]);
    if (rank == rank_ && rank_ != root) transfers_.push_back({.peer = root, .out = part});
    if (rank != rank_ && rank_ == root) transfers_.push_back({.peer = rank, .in = part});
  }
  return exchange(transfers_);
}

Result<void> ProcessGroup::broadcast(std::size_t root, std::span<std::byte> bytes) {
  EXO_CHECK(root < size());
  if (rank_ != root) return receive(root, bytes);
  const auto transfers = transfers_to_all();
  for (Transfer& transfer : transfers) transfer.out = bytes;
  return exchange(transfers);
}

Result<void> ProcessGroup::barrier() {
  std::vector<std::byte> marks(size());
  const std::vector<std::size_t> sizes(size(), 1);
  return all_gather(marks, sizes);
}

}  // namespace exo::comm
