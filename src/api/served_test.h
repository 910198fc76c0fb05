// A server over a scripted inference, for the tests of the room.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <utility>

#include "api/raw_client.h"
#include "api/scripted_inference.h"
#include "api/server.h"

namespace exo::api {

class ServedTest : public testing::Test {
 protected:
  // Call it first, with what differs from the defaults.
  void serve(ServerOptions options = {}) {
    if (options.listen.empty()) options.listen = {"127.0.0.1"};
    options.port = 0;
    auto server = Server::start(inference, std::move(options));
    ASSERT_TRUE(server) << to_string(server.error());
    server_ = std::move(*server);
  }
  void serve_within(Limits limits) { serve({.limits = limits}); }
  RawClient connect(int receive_buffer = 0) { return RawClient(server_->port(), receive_buffer); }
  Response ask(std::string_view request) {
    RawClient client = connect();
    client.send(request);
    return client.read();
  }

  ScriptedInference inference;
  std::unique_ptr<Server> server_;
};

}  // namespace exo::api
