// One connection: requests are read, routed and answered until it closes. Includes Asio, so only
// server.cc and the files of a session use it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "api/body_budget.h"
#include "api/inference.h"
#include "api/limits.h"
#include "api/router.h"

namespace exo::api {

// What sessions share; lives as long as any of them. All on the server's thread.
struct SessionContext {
  Inference& inference;
  const Router router;
  const Limits limits;
  BodyBudget bodies{limits.all_body_bytes};
  std::size_t connections = 0;
  bool closing = false;  // no further request on a connection
  std::list<std::function<void()>> on_close = {};

  // Ends what waits: connections between requests at once, generations with an error.
  void close() {
    closing = true;
    for (const auto& end : on_close) end();
  }
};

// Makes SessionContext::close() call `end` for as long as this object lives.
class ClosingHook {
 public:
  ClosingHook(SessionContext& context, std::function<void()> end)
      : context_(context), place_(context.on_close.insert(context.on_close.end(), std::move(end))) {
    if (context.closing) (*place_)();
  }
  ~ClosingHook() { context_.on_close.erase(place_); }
  ClosingHook(const ClosingHook&) = delete;
  ClosingHook& operator=(const ClosingHook&) = delete;

 private:
  SessionContext& context_;
  std::list<std::function<void()>>::iterator place_;
};

// Serves `socket` until it is closed; never throws.
boost::asio::awaitable<void> run_session(boost::asio::ip::tcp::socket socket,
                                         std::shared_ptr<SessionContext> context);

}  // namespace exo::api
