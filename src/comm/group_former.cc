#include "comm/group_former.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <list>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <utility>

#include "core/file.h"
#include "core/id.h"
#include "core/log.h"
#include "core/mutex.h"

namespace exo::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRedial{250}, kTick{50}, kHandshake{5000};
constexpr std::size_t kMaxHandshakes = 64;  // at a time
constexpr int kBacklog = 64;

struct FreeAddress {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using Address = std::unique_ptr<addrinfo, FreeAddress>;

Result<Address> numeric_address(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return fail(ErrorCode::kInvalidInput, "not a numeric IP address", host);
  return Address(found);
}

sockaddr_un unix_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(),
              std::min(path.native().size() + 1, sizeof address.sun_path - 1));
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Result<Descriptor> listen_at(const sockaddr* address, socklen_t size, int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0 || ::bind(socket.get(), address, size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    return fail_errno(errno, "cannot listen for the other ranks");
  return socket;
}

Result<std::uint16_t> port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail_errno(errno, "cannot listen for the other ranks");
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  return ntohs(address.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

// Errors: kUnavailable and others: it may be tried again; kInvalidInput: no address.
Result<Descriptor> connect_to(const sockaddr* address, socklen_t size, int family,
                              milliseconds limit) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return fail_errno(errno, "cannot make a socket");
  if (::connect(socket.get(), address, size) == 0) return socket;
  if (errno != EINPROGRESS) return fail_errno(errno, "cannot reach the other rank");
  pollfd waited{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&waited, 1, static_cast<int>(limit.count())) <= 0)
    return fail(ErrorCode::kTimedOut, "the other rank does not answer");
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail_errno(error, "cannot reach the other rank");
  return socket;
}

Result<Descriptor> connect_to(const Member& member, milliseconds limit) {
  if (!member.socket.empty()) {
    const sockaddr_un address = unix_address(member.socket);
    return connect_to(generic(address), sizeof address, AF_UNIX, limit);
  }
  EXO_TRY(const Address address, numeric_address(member.address, member.port));
  return connect_to(address->ai_addr, address->ai_addrlen, address->ai_family, limit);
}

bool is_final(const Error& error) {
  return error.code == ErrorCode::kPermission || error.code == ErrorCode::kInvalidInput;
}

// The channels that the threads of one form_group() bring.
class Formation {
 public:
  Formation(const GroupOptions& options, const GroupListener& listener)
      : options_(options),
        listener_(listener),
        deadline_(Clock::now() + options.timeout),
        channels_(options.members.size()) {}

  Result<std::vector<std::unique_ptr<Channel>>> run() {
    {
      std::list<std::jthread> threads;
      threads.emplace_back([this] { accept_all(); });
      for (std::size_t peer = 0; peer < options_.rank; ++peer)
        threads.emplace_back([this, peer] { dial_until_there(peer); });
      wait_for_all();
      finished_ = true;
    }
    const MutexLock lock(mutex_);
    if (strangers_ > 0) {
      log::warn("{} connections to rank {} of a process group were dropped, the last one since {}",
                strangers_, options_.rank, to_string(last_stranger_));
    }
    if (error_) return std::unexpected(std::move(*error_));
    for (std::size_t peer = 0; peer < channels_.size(); ++peer) {
      if (peer == options_.rank || channels_[peer]) continue;
      return fail(ErrorCode::kTimedOut, "a rank of the process group is missing",
                  fmt::format("rank {}", peer));
    }
    return std::move(channels_);
  }

 private:
  bool complete() EXO_REQUIRES(mutex_) {
    return std::ranges::count(channels_, nullptr, &std::unique_ptr<Channel>::get) == 1;
  }

  void wait_for_all() EXO_NO_THREAD_SAFETY_ANALYSIS {
    const MutexLock lock(mutex_);
    while (!complete() && !error_ && Clock::now() < deadline_) changed_.wait_for(mutex_, kTick);
  }

  void add(Connected connected) {
    const MutexLock lock(mutex_);
    auto& place = channels_[connected.rank];
    if (!place) place = std::move(connected.channel);
    changed_.notify_all();
  }

  void give_up(Error error, std::size_t peer) {
    const MutexLock lock(mutex_);
    error.subject = fmt::format("rank {}", peer);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  bool over() const { return finished_ || Clock::now() >= deadline_; }
  Clock::time_point handshake_deadline() const {
    return std::min(deadline_, Clock::now() + kHandshake);
  }

  void dial_until_there(std::size_t peer) {
    const Member& member = options_.members[peer];
    while (!over()) {
      auto socket = connect_to(member, kRedial);
      auto connected = socket ? dial(std::move(*socket), options_.identity, options_.rank, peer,
                                     !member.socket.empty(), handshake_deadline())
                              : Result<Connected>(std::unexpected(std::move(socket.error())));
      if (connected) return add(std::move(*connected));
      if (is_final(connected.error())) return give_up(std::move(connected.error()), peer);
      std::this_thread::sleep_for(kRedial);
    }
  }

  void accept_all() {
    std::list<std::jthread> handshakes;  // they end by themselves, at their deadlines
    while (!over()) {
      pollfd waited[] = {{.fd = listener_.tcp(), .events = POLLIN, .revents = 0},
                         {.fd = listener_.unix(), .events = POLLIN, .revents = 0}};
      if (::poll(waited, 2, static_cast<int>(kTick.count())) <= 0) continue;
      for (const bool shared : {false, true}) {
        if ((waited[shared ? 1 : 0].revents & POLLIN) == 0) continue;
        Descriptor socket(
            ::accept4(waited[shared ? 1 : 0].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket.get() < 0) continue;
        if (in_progress_ >= kMaxHandshakes) continue;  // closes it: a rank dials again
        ++in_progress_;
        handshakes.emplace_back([this, shared, socket = std::move(socket)]() mutable {
          shake_hands(std::move(socket), shared);
        });
      }
    }
  }

  void shake_hands(Descriptor socket, bool shared) {
    auto connected = accept(std::move(socket), options_.identity, options_.rank,
                            options_.members.size(), shared, handshake_deadline());
    --in_progress_;
    if (connected) return add(std::move(*connected));
    const MutexLock lock(mutex_);
    ++strangers_;
    last_stranger_ = std::move(connected.error());
  }

  const GroupOptions& options_;
  const GroupListener& listener_;
  const Clock::time_point deadline_;
  std::atomic<bool> finished_ = false;
  std::atomic<std::size_t> in_progress_ = 0;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::unique_ptr<Channel>> channels_ EXO_GUARDED_BY(mutex_);
  std::optional<Error> error_ EXO_GUARDED_BY(mutex_);
  std::size_t strangers_ EXO_GUARDED_BY(mutex_) = 0;
  Error last_stranger_ EXO_GUARDED_BY(mutex_);
};

}  // namespace

Result<GroupListener> GroupListener::open(const std::string& address,
                                          const std::filesystem::path& directory) {
  EXO_TRY(const Address found, numeric_address(address, 0));
  EXO_TRY(Descriptor tcp, listen_at(found->ai_addr, found->ai_addrlen, found->ai_family));
  EXO_TRY(const std::uint16_t port, port_of(tcp.get()));
  GroupListener listener(std::move(tcp), port);
  if (directory.empty()) return listener;
  EXO_TRY(make_directories(directory));
  if (::chmod(directory.c_str(), 0700) != 0)
    return fail_errno(errno, "cannot make the directory private", directory);
  const std::filesystem::path path = directory / ("group-" + random_hex(16));
  if (path.native().size() >= sizeof(sockaddr_un::sun_path))
    return fail(ErrorCode::kInvalidInput, "the path is too long for a socket", path);
  const sockaddr_un local = unix_address(path);
  EXO_TRY(listener.unix_, listen_at(generic(local), sizeof local, AF_UNIX));
  listener.socket_path_ = path;
  return listener;
}

GroupListener::~GroupListener() {
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
}

Result<ProcessGroup> form_group(GroupListener listener, const GroupOptions& options) {
  std::vector<std::unique_ptr<Channel>> alone(1);
  if (options.members.size() == 1) return ProcessGroup::make(0, std::move(alone));
  EXO_TRY(auto channels, Formation(options, listener).run());
  return ProcessGroup::make(options.rank, std::move(channels));
}

}  // namespace exo::comm
