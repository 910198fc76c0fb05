// A channel between two processes of one machine: a ring of shared memory for each direction, and a
// Unix socket that wakes a sleeper and tells of a death.
#pragma once

#include <memory>
#include <utility>

#include "comm/channel.h"
#include "core/descriptor.h"
#include "core/result.h"

namespace exo::comm {

// Which of the two ends: each sends into the other's ring.
enum class Side : bool { kFirst, kSecond };

// Zeroed shared memory for one channel, without a name, gone with its last user. Errors: kNoSpace,
// kIo.
Result<Descriptor> make_shared_memory();

// `memory` from make_shared_memory() of either process; `socket`: a connected Unix stream socket
// that carries nothing else from here on. Errors: kNoSpace; kInvalidInput: memory of another size.
Result<std::unique_ptr<Channel>> open_shared_memory(Descriptor memory, Descriptor socket,
                                                    Side side);

// Both ends in this process. Errors: as above.
Result<std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>> shared_memory_pair();

}  // namespace exo::comm
