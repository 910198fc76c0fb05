// The seam of comm: bytes between two ranks, both ways, in order.
#pragma once

#include <cstddef>
#include <span>

#include "core/result.h"

namespace exo::comm {

// What a sleeping rank waits for at one channel.
struct Interest {
  bool to_send = false, to_receive = false;
};

// How to sleep on a channel: poll(2) this descriptor for these events, unless it is `ready`.
struct Doorbell {
  int fd = -1;
  short events = 0;
  bool ready = false;  // something can move now; do not sleep
};

// Used by one thread at a time, which makes progress by trying again; nothing here blocks. Errors
// everywhere: kUnavailable: the other side is gone; kIo; kInternal: it breaks the protocol.
class Channel {
 public:
  virtual ~Channel() = default;

  // Takes as many of the first `bytes` as fit now; 0: none.
  virtual Result<std::size_t> send_some(std::span<const std::byte> bytes) = 0;
  // Whether all that was taken is on its way.
  virtual Result<bool> flush() = 0;
  // Fills as much of `bytes` as has arrived; 0: nothing.
  virtual Result<std::size_t> receive_some(std::span<std::byte> bytes) = 0;

  virtual Doorbell arm(Interest interest) = 0;
  // After poll(2) reported `events` for the doorbell.
  virtual Result<void> disarm(short events) = 0;

  // The other side sees this one gone. From any thread, more than once.
  virtual void close() = 0;
};

}  // namespace exo::comm
