// A channel that delivers what was sent a given time later: a stand-in for a network, for
// measurements of placements that this machine does not have.
#pragma once

#include <chrono>
#include <memory>

#include "comm/channel.h"
#include "core/result.h"

namespace exo::comm {

// Both ends must be wrapped, on machines that share a clock. Errors: kIo.
Result<std::unique_ptr<Channel>> delay(std::unique_ptr<Channel> channel,
                                       std::chrono::microseconds one_way);

}  // namespace exo::comm
