// One chat: from a request's body to the end of its reply, streamed or whole. Includes Asio, so
// only the files of a session use it.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "api/connection.h"
#include "api/session.h"

namespace exo::api {

// The generation is cancelled if the client goes before its end, within a second. True: the
// connection stays open. `connection` and `context` must outlive the call.
boost::asio::awaitable<bool> serve_chat(Connection& connection, SessionContext& context,
                                        Envelope envelope, std::string body);

}  // namespace exo::api
