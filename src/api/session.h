// One connection: requests are read, routed and answered until it closes. Includes Asio, so only
// server.cc and session.cc use it.
#pragma once

#include <atomic>
#include <memory>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "api/inference.h"
#include "api/router.h"

namespace exo::api {

// What sessions share; lives as long as the server.
struct SessionContext {
  Inference* inference = nullptr;
  Router router{{}};
  bool closing = false;  // no further request on a connection; only touched on the server's thread
  std::atomic<std::size_t> busy = 0;  // replies under way
};

// Serves `socket` until it is closed; never throws.
boost::asio::awaitable<void> run_session(boost::asio::ip::tcp::socket socket,
                                         std::shared_ptr<SessionContext> context);

}  // namespace exo::api
