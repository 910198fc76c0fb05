// The HTTP server. Source: api.md 1.1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/inference.h"
#include "api/limits.h"
#include "core/result.h"

namespace exo::api {

struct ServerOptions {
  std::vector<std::string> listen =
      {};  // addresses; empty: loopback, or all interfaces if there is an API key
  std::uint16_t port = 52415;          // 0: any free one
  std::vector<std::string> cors = {};  // foreign origins that are allowed
  std::vector<std::string> api_keys = {};
  Limits limits = {};
};

// Serves on a thread of its own until it is closed.
class Server {
 public:
  // `inference` must outlive it. Errors: kBusy: the port is in use; kInvalidInput: an address that
  // is none; kPermission.
  static Result<std::unique_ptr<Server>> start(Inference& inference, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  std::vector<std::string> addresses() const;
  // Accepts nothing more, ends generations with an error that their clients still get, closes the
  // other connections, and after Limits::shutdown those whose clients do not read.
  void close();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace exo::api
