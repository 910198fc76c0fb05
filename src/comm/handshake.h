// Two ranks make sure that the other one knows the group's secret, and agree on the keys of their
// channel.
//
//   dialer → acceptor   greeting: group, ranks, what it can do, a nonce
//   acceptor → dialer   what it can do, a nonce, MAC of both messages so far
//   dialer → acceptor   MAC of all of that
//   acceptor → dialer   one byte: welcome; over a Unix socket with the shared memory
//
// Keys come from the secret and both nonces, one per direction and purpose (HKDF-SHA256), so a
// recorded conversation cannot be played again.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "comm/channel.h"
#include "comm/seal.h"
#include "core/descriptor.h"
#include "core/result.h"

namespace exo::comm {

struct Identity {
  std::string group = {};  // its name, unique in time
  Key secret = {};         // of the group
  bool sealed = true;      // tensors over TCP are encrypted; all ranks must agree
};

struct Connected {
  std::size_t rank = 0;  // of the other side
  std::unique_ptr<Channel> channel = {};
};

// `socket`: a connected stream socket, TCP or (`shared`) Unix. Blocks until `deadline`. Errors:
// kPermission: the other side does not know the secret or breaks the protocol; kTimedOut;
// kUnavailable: it closed the connection; kInvalidInput: sealed on one side only.
Result<Connected> dial(Descriptor socket, const Identity& identity, std::size_t own_rank,
                       std::size_t peer_rank, bool shared,
                       std::chrono::steady_clock::time_point deadline);
// Accepts ranks above its own only.
Result<Connected> accept(Descriptor socket, const Identity& identity, std::size_t own_rank,
                         std::size_t group_size, bool shared,
                         std::chrono::steady_clock::time_point deadline);

}  // namespace exo::comm
