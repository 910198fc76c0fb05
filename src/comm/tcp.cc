#include "comm/tcp.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

#include "core/bytes.h"

namespace exo::comm {
namespace {

std::unexpected<Error> gone() {
  return fail(ErrorCode::kUnavailable, "the other side has closed the connection");
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Result<std::size_t> write_some(int fd, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (would_block(errno)) return 0;
  if (errno == EPIPE || errno == ECONNRESET) return gone();
  return fail_errno(errno, "cannot send a tensor");
}

Result<std::size_t> read_some(int fd, std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0 || errno == ECONNRESET) return gone();
  if (would_block(errno)) return 0;
  return fail_errno(errno, "cannot receive a tensor");
}

// What both kinds share: the socket, and sleeping on it.
class SocketChannel : public Channel {
 public:
  explicit SocketChannel(Descriptor socket) : socket_(std::move(socket)) {}

  Doorbell arm(Interest interest) override {
    return {.fd = socket_.get(),
            .events = static_cast<short>((interest.to_receive ? POLLIN : 0) |
                                         (interest.to_send ? POLLOUT : 0))};
  }
  Result<void> disarm(short) override { return {}; }
  void close() override { ::shutdown(socket_.get(), SHUT_RDWR); }

 protected:
  int fd() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

class PlainChannel final : public SocketChannel {
 public:
  using SocketChannel::SocketChannel;
  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    return write_some(fd(), bytes);
  }
  Result<bool> flush() override { return true; }
  Result<std::size_t> receive_some(std::span<std::byte> bytes) override {
    return read_some(fd(), bytes);
  }
};

// Records on the wire: the plaintext's size as u32, the ciphertext, the tag.
class SealedChannel final : public SocketChannel {
 public:
  SealedChannel(Descriptor socket, const SealKeys& keys)
      : SocketChannel(std::move(socket)),
        sealer_(keys.outgoing, keys.cipher),
        opener_(keys.incoming, keys.cipher),
        outgoing_(kMaxRecord),
        incoming_(2 * kMaxRecord) {}

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    EXO_TRY(const bool flushed, flush());
    if (!flushed) return 0;
    const std::size_t count = std::min(bytes.size(), kMaxPlain);
    if (count == 0) return 0;
    const auto size = static_cast<std::uint32_t>(count);
    store(outgoing_.data(), size);
    sealer_.seal(std::span(outgoing_).first(kHeader), bytes.first(count),
                 outgoing_.data() + kHeader);
    sent_ = 0;
    to_send_ = kHeader + count + kTagBytes;
    EXO_TRY(flush());
    return count;
  }

  Result<bool> flush() override {
    EXO_TRY(const std::size_t count,
            write_some(fd(), std::span(outgoing_).subspan(sent_, to_send_ - sent_)));
    sent_ += count;
    return sent_ == to_send_;
  }

  Result<std::size_t> receive_some(std::span<std::byte> bytes) override {
    if (opened_ == plain_.size()) {
      EXO_TRY(const std::size_t direct, open_record(bytes));
      if (direct > 0) return direct;
    }
    const std::size_t count = std::min(bytes.size(), plain_.size() - opened_);
    if (count == 0) return 0;
    std::memcpy(bytes.data(), plain_.data() + opened_, count);
    opened_ += count;
    return count;
  }

  Doorbell arm(Interest interest) override {
    Doorbell bell = SocketChannel::arm(
        {.to_send = interest.to_send || sent_ < to_send_, .to_receive = interest.to_receive});
    bell.ready = interest.to_receive && opened_ < plain_.size();
    return bell;
  }

 private:
  static constexpr std::size_t kHeader = sizeof(std::uint32_t);
  static constexpr std::size_t kMaxPlain = std::size_t{64} << 10;
  static constexpr std::size_t kMaxRecord = kHeader + kMaxPlain + kTagBytes;

  // Opens the next record, if all of it is there: straight into `bytes` if it fits, which gives its
  // size, else into plain_, which gives 0.
  Result<std::size_t> open_record(std::span<std::byte> bytes) {
    EXO_TRY(bool complete, has_record());
    if (!complete) {
      EXO_TRY(read_more());
      EXO_TRY(complete, has_record());
      if (!complete) return 0;
    }
    const auto record = std::span(incoming_).subspan(begin_, end_ - begin_);
    const std::size_t size = load<std::uint32_t>(record.data());
    const bool fits = size <= bytes.size();
    if (!fits) plain_.resize(size);
    EXO_TRY(opener_.open(record.first(kHeader), record.subspan(kHeader, size + kTagBytes),
                         fits ? bytes.data() : plain_.data()));
    begin_ += kHeader + size + kTagBytes;
    if (fits) return size;
    opened_ = 0;
    return 0;
  }

  Result<bool> has_record() const {
    const std::size_t there = end_ - begin_;
    if (there < kHeader) return false;
    const std::size_t size = load<std::uint32_t>(incoming_.data() + begin_);
    if (size == 0 || size > kMaxPlain)
      return fail(ErrorCode::kInternal, "the other side sends records of a wrong size");
    return there >= kHeader + size + kTagBytes;
  }

  Result<void> read_more() {
    if (begin_ == end_) begin_ = end_ = 0;
    if (incoming_.size() - begin_ < kMaxRecord) {
      std::memmove(incoming_.data(), incoming_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    EXO_TRY(const std::size_t count, read_some(fd(), std::span(incoming_).subspan(end_)));
    end_ += count;
    return {};
  }

  Sealer sealer_, opener_;
  std::vector<std::byte> outgoing_, incoming_, plain_;
  std::size_t sent_ = 0, to_send_ = 0;  // of outgoing_
  std::size_t begin_ = 0, end_ = 0;     // of incoming_: what has arrived and is not opened
  std::size_t opened_ = 0;              // of plain_: what was handed out
};

}  // namespace

Result<std::unique_ptr<Channel>> open_tcp(Descriptor socket, const std::optional<SealKeys>& keys) {
  const int on = 1;
  // Fails on the Unix sockets of tests, which do not delay either.
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno(errno, "cannot use the connection");
  if (keys) return std::make_unique<SealedChannel>(std::move(socket), *keys);
  return std::make_unique<PlainChannel>(std::move(socket));
}

}  // namespace exo::comm
