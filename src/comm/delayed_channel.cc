#include "comm/delayed_channel.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <sys/timerfd.h>
#include <vector>

#include "core/bytes.h"
#include "core/descriptor.h"

namespace exo::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

// Frames of the inner channel: when they were sent, how long they are, and the bytes.
struct FrameHeader {
  std::int64_t sent_ns = 0;
  std::uint64_t size = 0;
};
constexpr std::size_t kMaxFrame = std::size_t{256} << 10;

std::int64_t now_ns() {
  return std::chrono::duration_cast<Nanoseconds>(Clock::now().time_since_epoch()).count();
}

class DelayedChannel final : public Channel {
 public:
  DelayedChannel(std::unique_ptr<Channel> inner, Nanoseconds delay, Descriptor timer)
      : inner_(std::move(inner)), delay_(delay), timer_(std::move(timer)) {}

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    EXO_TRY(const bool flushed, flush());
    const std::size_t count = std::min(bytes.size(), kMaxFrame);
    if (!flushed || count == 0) return 0;
    outgoing_.resize(sizeof(FrameHeader) + count);
    store(outgoing_.data(), FrameHeader{.sent_ns = now_ns(), .size = count});
    std::memcpy(outgoing_.data() + sizeof(FrameHeader), bytes.data(), count);
    sent_ = 0;
    EXO_TRY(flush());
    return count;
  }

  Result<bool> flush() override {
    EXO_TRY(const std::size_t count, inner_->send_some(std::span(outgoing_).subspan(sent_)));
    sent_ += count;
    if (sent_ < outgoing_.size()) return false;
    return inner_->flush();
  }

  Result<std::size_t> receive_some(std::span<std::byte> bytes) override {
    if (got_header_ < sizeof(FrameHeader)) {
      EXO_TRY(const std::size_t count,
              inner_->receive_some(
                  std::as_writable_bytes(std::span(&header_, 1)).subspan(got_header_)));
      got_header_ += count;
      if (got_header_ < sizeof(FrameHeader)) return 0;
    }
    if (now_ns() < due_ns()) return 0;
    const std::size_t wanted = std::min<std::size_t>(bytes.size(), header_.size);
    EXO_TRY(const std::size_t count, inner_->receive_some(bytes.first(wanted)));
    header_.size -= count;
    if (header_.size == 0) got_header_ = 0;
    return count;
  }

  Doorbell arm(Interest interest) override {
    if (!interest.to_receive || got_header_ < sizeof(FrameHeader) || now_ns() >= due_ns())
      return inner_->arm(interest);
    timed_ = true;
    itimerspec when{};
    when.it_value.tv_sec = due_ns() / 1'000'000'000;
    when.it_value.tv_nsec = due_ns() % 1'000'000'000;
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
    return {.fd = timer_.get(), .events = POLLIN};
  }

  Result<void> disarm(short events) override {
    if (!timed_) return inner_->disarm(events);
    timed_ = false;
    std::uint64_t ticks = 0;
    [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &ticks, sizeof ticks);
    return {};
  }

  void close() override { inner_->close(); }

 private:
  std::int64_t due_ns() const { return header_.sent_ns + delay_.count(); }

  std::unique_ptr<Channel> inner_;
  Nanoseconds delay_;
  Descriptor timer_;
  bool timed_ = false;
  std::vector<std::byte> outgoing_;
  std::size_t sent_ = 0;
  FrameHeader header_;
  std::size_t got_header_ = 0;
};

}  // namespace

Result<std::unique_ptr<Channel>> delay(std::unique_ptr<Channel> channel,
                                       std::chrono::microseconds one_way) {
  Descriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (timer.get() < 0) return fail_errno(errno, "cannot make a timer");
  return std::make_unique<DelayedChannel>(std::move(channel), one_way, std::move(timer));
}

}  // namespace exo::comm
