#include "comm/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace exo::comm {
namespace {

constexpr std::size_t kRingBytes = std::size_t{1} << 20;
constexpr std::size_t kCacheLine = 64;
static_assert(std::has_single_bit(kRingBytes));
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// One direction. Positions count bytes since the start; the writer owns `written`, the reader
// `read`. A side that sleeps says so, and the other one rings.
struct Ring {
  alignas(kCacheLine) std::atomic<std::uint64_t> written;
  alignas(kCacheLine) std::atomic<std::uint64_t> read;
  alignas(kCacheLine) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_sleeps;
  alignas(kCacheLine) std::byte bytes[kRingBytes];
};
struct Memory {
  Ring rings[2];
};

struct Unmap {
  void operator()(Memory* memory) const { munmap(memory, sizeof(Memory)); }
};

std::unexpected<Error> gone() {
  return fail(ErrorCode::kUnavailable, "the other process has closed its end");
}

class SharedMemoryChannel final : public Channel {
 public:
  SharedMemoryChannel(Memory* memory, Descriptor socket, Side side)
      : memory_(memory),
        socket_(std::move(socket)),
        out_(memory->rings[side == Side::kFirst ? 0 : 1]),
        in_(memory->rings[side == Side::kFirst ? 1 : 0]) {}

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    if (closed_) return gone();
    const std::uint64_t written = out_.written.load(std::memory_order_relaxed);
    EXO_TRY(const std::size_t used, distance(out_.read.load(std::memory_order_acquire), written));
    const std::size_t count = std::min(bytes.size(), kRingBytes - used);
    if (count == 0) return 0;
    const std::size_t at = written % kRingBytes, first = std::min(count, kRingBytes - at);
    std::memcpy(out_.bytes + at, bytes.data(), first);
    std::memcpy(out_.bytes, bytes.data() + first, count - first);
    // Sequentially consistent, as the sleeper's look at it: one of the two sees the other.
    out_.written.store(written + count, std::memory_order_seq_cst);
    if (out_.reader_sleeps.load(std::memory_order_seq_cst) != 0 &&
        out_.reader_sleeps.exchange(0) != 0)
      ring();
    return count;
  }

  Result<bool> flush() override { return true; }

  Result<std::size_t> receive_some(std::span<std::byte> bytes) override {
    const std::uint64_t read = in_.read.load(std::memory_order_relaxed);
    EXO_TRY(const std::size_t there, distance(read, in_.written.load(std::memory_order_acquire)));
    const std::size_t count = std::min(bytes.size(), there);
    if (count == 0) {
      if (closed_ && !bytes.empty()) return gone();
      return 0;
    }
    const std::size_t at = read % kRingBytes, first = std::min(count, kRingBytes - at);
    std::memcpy(bytes.data(), in_.bytes + at, first);
    std::memcpy(bytes.data() + first, in_.bytes, count - first);
    in_.read.store(read + count, std::memory_order_seq_cst);
    if (in_.writer_sleeps.load(std::memory_order_seq_cst) != 0 &&
        in_.writer_sleeps.exchange(0) != 0)
      ring();
    return count;
  }

  Doorbell arm(Interest interest) override {
    bool ready = closed_;
    if (interest.to_receive) {
      in_.reader_sleeps.store(1, std::memory_order_seq_cst);
      ready |= in_.written.load(std::memory_order_seq_cst) != in_.read.load();
    }
    if (interest.to_send) {
      out_.writer_sleeps.store(1, std::memory_order_seq_cst);
      ready |= out_.written.load() - out_.read.load(std::memory_order_seq_cst) < kRingBytes;
    }
    return {.fd = socket_.get(), .events = POLLIN, .ready = ready};
  }

  Result<void> disarm(short events) override {
    in_.reader_sleeps.store(0, std::memory_order_relaxed);
    out_.writer_sleeps.store(0, std::memory_order_relaxed);
    if (events == 0) return {};
    std::byte rings[64];
    const ssize_t got = ::recv(socket_.get(), rings, sizeof rings, MSG_DONTWAIT);
    const bool nothing = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    // What is in the ring was sent before: it is still received.
    if (got == 0 || (got < 0 && !nothing)) closed_ = true;
    return {};
  }

  void close() override { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  // Bytes from `from` to `to`; the other process's counter is not to be trusted.
  static Result<std::size_t> distance(std::uint64_t from, std::uint64_t to) {
    if (to - from > kRingBytes)
      return fail(ErrorCode::kInternal, "the counters of the shared memory are damaged");
    return static_cast<std::size_t>(to - from);
  }

  void ring() {
    const std::byte bell{1};
    // A full socket has rung already, and a closed one is found out by whoever waits at it.
    [[maybe_unused]] const ssize_t sent =
        ::send(socket_.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  std::unique_ptr<Memory, Unmap> memory_;
  Descriptor socket_;
  Ring& out_;
  Ring& in_;
  bool closed_ = false;
};

}  // namespace

Result<Descriptor> make_shared_memory() {
  Descriptor memory(::memfd_create("exo-tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) return fail_errno(errno, "cannot make shared memory");
  if (::ftruncate(memory.get(), sizeof(Memory)) != 0)
    return fail_errno(errno, "cannot make shared memory");
  // Nobody can make it shorter under the other's feet.
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return fail_errno(errno, "cannot seal shared memory");
  return memory;
}

Result<std::unique_ptr<Channel>> open_shared_memory(Descriptor memory, Descriptor socket,
                                                    Side side) {
  struct stat info{};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (::fstat(memory.get(), &info) != 0 || info.st_size != sizeof(Memory) || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return fail(ErrorCode::kInvalidInput, "this is no shared memory for a channel");
  }
  void* const mapped =
      ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map shared memory");
  return std::make_unique<SharedMemoryChannel>(static_cast<Memory*>(mapped), std::move(socket),
                                               side);
}

Result<std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>> shared_memory_pair() {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return fail_errno(errno, "cannot make a pair of sockets");
  Descriptor first(sockets[0]), second(sockets[1]);
  EXO_TRY(Descriptor memory, make_shared_memory());
  Descriptor same(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));
  if (same.get() < 0) return fail_errno(errno, "cannot share memory");
  EXO_TRY(auto one, open_shared_memory(std::move(memory), std::move(first), Side::kFirst));
  EXO_TRY(auto other, open_shared_memory(std::move(same), std::move(second), Side::kSecond));
  return std::pair(std::move(one), std::move(other));
}

}  // namespace exo::comm
