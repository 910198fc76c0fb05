// A channel over a TCP connection, sealed or plain.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "comm/channel.h"
#include "comm/seal.h"
#include "core/descriptor.h"
#include "core/result.h"

namespace exo::comm {

// What both ends of a sealed channel agreed on, seen from one of them.
struct SealKeys {
  Key outgoing = {}, incoming = {};
  Cipher cipher = Cipher::kAes256Gcm;
};

// `socket`: a connected stream socket that both sides have authenticated. Without keys the bytes
// are sent as they are. Errors: kIo.
Result<std::unique_ptr<Channel>> open_tcp(Descriptor socket, const std::optional<SealKeys>& keys);

}  // namespace exo::comm
