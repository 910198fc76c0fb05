#include "comm/handshake.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "comm/shared_memory.h"
#include "comm/tcp.h"
#include "core/bytes.h"

namespace exo::comm {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr std::uint64_t kMagic = 0x31'70'75'6f'72'67'6f'78U;  // "xogroup1"
constexpr std::size_t kNonceBytes = 32;
constexpr std::uint32_t kSealed = 1, kFastAes = 2;
using Nonce = std::array<std::byte, kNonceBytes>;

// As they are on the wire; little-endian, as every machine that exo runs on.
struct Greeting {
  std::uint64_t magic = kMagic;
  std::uint32_t from = 0, to = 0;
  std::uint32_t flags = 0, reserved = 0;
  Key group = {};  // a hash of its name
  Nonce nonce = {};
};
struct Reply {
  std::uint32_t flags = 0, reserved = 0;
  Nonce nonce = {};
  Key mac = {};
};
static_assert(sizeof(Greeting) == 88 && sizeof(Reply) == 72);

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::unexpected<Error> refused(std::string message) {
  return fail(ErrorCode::kPermission, std::move(message));
}

// Waits for `events`. Errors: kTimedOut.
Result<void> wait(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return fail(ErrorCode::kTimedOut, "the other rank does not answer");
    pollfd waited{.fd = fd, .events = events, .revents = 0};
    const int got = ::poll(&waited, 1, static_cast<int>(left.count()));
    if (got > 0) return {};
    if (got < 0 && errno != EINTR) return fail_errno(errno, "cannot wait for the other rank");
  }
}

Result<void> write_whole(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    EXO_TRY(wait(fd, POLLOUT, deadline));
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return fail_errno(errno, "cannot reach the other rank");
  }
  return {};
}

Result<void> read_whole(int fd, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    EXO_TRY(wait(fd, POLLIN, deadline));
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return fail(ErrorCode::kUnavailable, "the other rank closed the connection");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return fail_errno(errno, "cannot reach the other rank");
  }
  return {};
}

// The welcome, with a descriptor where there is one to hand over.
Result<void> write_welcome(int fd, int handed_over, Deadline deadline) {
  EXO_TRY(wait(fd, POLLOUT, deadline));
  std::byte welcome{1};
  iovec part{.iov_base = &welcome, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (handed_over >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &handed_over, sizeof handed_over);
  }
  if (::sendmsg(fd, &message, MSG_NOSIGNAL) != 1)
    return fail_errno(errno, "cannot reach the other rank");
  return {};
}

Result<Descriptor> read_welcome(int fd, Deadline deadline) {
  EXO_TRY(wait(fd, POLLIN, deadline));
  std::byte welcome{0};
  iovec part{.iov_base = &welcome, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (got == 0) return fail(ErrorCode::kUnavailable, "the other rank closed the connection");
  if (got < 0) return fail_errno(errno, "cannot reach the other rank");
  Descriptor handed_over(-1);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    handed_over = Descriptor(received);
  }
  return handed_over;
}

// What both sides know once both nonces are exchanged.
class Secrets {
 public:
  Secrets(const Identity& identity, const Greeting& greeting, const Reply& reply)
      : greeting_(greeting), flags_(reply.flags) {
    std::memcpy(salt_, greeting.nonce.data(), kNonceBytes);
    std::memcpy(salt_ + kNonceBytes, reply.nonce.data(), kNonceBytes);
    mac_key_ = derive(identity, "exo handshake");
    dialers_ = derive(identity, "exo dialer to acceptor");
    acceptors_ = derive(identity, "exo acceptor to dialer");
  }

  Key mac(std::string_view side) const {
    return authenticate(mac_key_,
                        {bytes_of(side), bytes_of(greeting_), bytes_of(flags_), bytes_of(salt_)});
  }

  SealKeys keys(bool dialer) const {
    const bool aes = (greeting_.flags & flags_ & kFastAes) != 0;
    return {.outgoing = dialer ? dialers_ : acceptors_,
            .incoming = dialer ? acceptors_ : dialers_,
            .cipher = aes ? Cipher::kAes256Gcm : Cipher::kChaCha20Poly1305};
  }

 private:
  Key derive(const Identity& identity, std::string_view purpose) const {
    return derive_key(identity.secret, salt_, purpose);
  }

  Greeting greeting_;
  std::uint32_t flags_;
  std::byte salt_[2 * kNonceBytes];
  Key mac_key_, dialers_, acceptors_;
};

std::uint32_t own_flags(const Identity& identity) {
  return (identity.sealed ? kSealed : 0U) | (has_fast_aes() ? kFastAes : 0U);
}

Result<void> check_sealing(std::uint32_t theirs, const Identity& identity, std::size_t rank) {
  if (((theirs & kSealed) != 0) == identity.sealed) return {};
  return fail(ErrorCode::kInvalidInput,
              fmt::format("rank {} {} its tensors and this one {}: give --plain-tensors to all "
                          "nodes or to none",
                          rank, identity.sealed ? "does not encrypt" : "encrypts",
                          identity.sealed ? "does" : "does not"));
}

Key group_hash(const Identity& identity) {
  return derive_key(bytes_of(std::string_view(identity.group)), {}, "exo group name");
}

Result<std::unique_ptr<Channel>> open_channel(Descriptor socket, Descriptor memory,
                                              const Identity& identity, const Secrets& secrets,
                                              bool dialer) {
  if (memory.get() >= 0) {
    return open_shared_memory(std::move(memory), std::move(socket),
                              dialer ? Side::kFirst : Side::kSecond);
  }
  return open_tcp(std::move(socket),
                  identity.sealed ? std::optional(secrets.keys(dialer)) : std::nullopt);
}

}  // namespace

Result<Connected> dial(Descriptor socket, const Identity& identity, std::size_t own_rank,
                       std::size_t peer_rank, bool shared, Deadline deadline) {
  Greeting greeting{.from = static_cast<std::uint32_t>(own_rank),
                    .to = static_cast<std::uint32_t>(peer_rank),
                    .flags = own_flags(identity),
                    .group = group_hash(identity)};
  fill_random(greeting.nonce);
  EXO_TRY(write_whole(socket.get(), bytes_of(std::as_const(greeting)), deadline));
  Reply reply;
  EXO_TRY(read_whole(socket.get(), bytes_of(reply), deadline));
  const Secrets secrets(identity, greeting, reply);
  if (!equal_in_constant_time(reply.mac, secrets.mac("acceptor")))
    return refused("the other rank does not know the group's secret");
  EXO_TRY(check_sealing(reply.flags, identity, peer_rank));
  const Key mac = secrets.mac("dialer");
  EXO_TRY(write_whole(socket.get(), mac, deadline));
  EXO_TRY(Descriptor memory, read_welcome(socket.get(), deadline));
  if (shared != (memory.get() >= 0)) return refused("the other rank offers another transport");
  EXO_TRY(auto channel,
          open_channel(std::move(socket), std::move(memory), identity, secrets, /*dialer=*/true));
  return Connected{.rank = peer_rank, .channel = std::move(channel)};
}

Result<Connected> accept(Descriptor socket, const Identity& identity, std::size_t own_rank,
                         std::size_t group_size, bool shared, Deadline deadline) {
  Greeting greeting;
  EXO_TRY(read_whole(socket.get(), bytes_of(greeting), deadline));
  if (greeting.magic != kMagic || greeting.group != group_hash(identity) ||
      greeting.to != own_rank || greeting.from <= own_rank || greeting.from >= group_size)
    return refused("somebody else connected to this rank");
  Reply reply{.flags = own_flags(identity)};
  fill_random(reply.nonce);
  const Secrets secrets(identity, greeting, reply);
  reply.mac = secrets.mac("acceptor");
  EXO_TRY(write_whole(socket.get(), bytes_of(std::as_const(reply)), deadline));
  Key mac;
  EXO_TRY(read_whole(socket.get(), bytes_of(mac), deadline));
  if (!equal_in_constant_time(mac, secrets.mac("dialer")))
    return refused("somebody connected without the group's secret");
  EXO_TRY(check_sealing(greeting.flags, identity, greeting.from));
  Descriptor memory(-1);
  if (shared) {
    EXO_TRY(memory, make_shared_memory());
  }
  EXO_TRY(write_welcome(socket.get(), memory.get(), deadline));
  EXO_TRY(auto channel,
          open_channel(std::move(socket), std::move(memory), identity, secrets, /*dialer=*/false));
  return Connected{.rank = greeting.from, .channel = std::move(channel)};
}

}  // namespace exo::comm
