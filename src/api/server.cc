#include "api/server.h"

#include <chrono>
#include <fmt/format.h>
#include <future>
#include <list>
#include <thread>
#include <unistd.h>
#include <utility>

#include <boost/asio.hpp>
#include <nlohmann/json.hpp>

#include "api/http_error.h"
#include "api/session.h"
#include "core/id.h"
#include "core/strings.h"

namespace exo::api {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string();
}

Result<tcp::acceptor> listen_on(asio::io_context& io, const std::string& address,
                                std::uint16_t port) {
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error)
    return fail(ErrorCode::kInvalidInput, fmt::format("'{}' is no IP address", address), address);
  tcp::acceptor acceptor(io);
  acceptor.open(ip.is_v6() ? tcp::v6() : tcp::v4(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && ip.is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
  if (!error) acceptor.bind({ip, port}, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    return fail(
        ErrorCode::kBusy,
        fmt::format("port {} is in use by another program: choose another one with --api-port",
                    port),
        address);
  }
  if (error)
    return fail_errno(error.value(), fmt::format("cannot listen on {} port {}", address, port),
                      address);
  return acceptor;
}

// Counts a session for as long as it lives, whatever ends it.
class Counted {
 public:
  explicit Counted(std::shared_ptr<SessionContext> context) : context_(std::move(context)) {
    ++context_->connections;
  }
  Counted(Counted&&) = default;
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (context_ != nullptr) --context_->connections;
  }

 private:
  std::shared_ptr<SessionContext> context_;
};

asio::awaitable<void> serve(tcp::socket socket, std::shared_ptr<SessionContext> context, Counted) {
  co_await run_session(std::move(socket), std::move(context));
}

// Tells a client why it is not served. Never waits: a new socket has room for so little.
void turn_away(tcp::socket& socket) {
  const std::string body = dump_json(error_body(
      {.status = 503,
       .message = "this node serves as many connections as it may: try again in a moment"}));
  const std::string reply = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: "
      "{0}\r\nConnection: close\r\nRetry-After: 1\r\nx-request-id: {1}\r\nrequest-id: "
      "{1}\r\n\r\n{2}",
      body.size(), "req_" + random_hex(24), body);
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(reply), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace

struct Server::State {
  State(Inference& inference, RouterOptions router, const Limits& limits)
      : context(std::make_shared<SessionContext>(inference, Router(std::move(router)), limits)) {}

  std::shared_ptr<SessionContext> context;
  asio::io_context io{1};
  std::list<tcp::acceptor> acceptors;
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  std::promise<void> ended;  // the thread has nothing left to do
  std::jthread thread;
  bool closed = false;

  asio::awaitable<void> accept(tcp::acceptor& acceptor) {
    while (acceptor.is_open()) {
      auto [error, socket] = co_await acceptor.async_accept(kToken);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // out of descriptors, most likely: wait instead of spinning
        asio::steady_timer pause(io, std::chrono::milliseconds(100));
        co_await pause.async_wait(kToken);
        continue;
      }
      if (context->connections >= context->limits.connections) {
        turn_away(socket);
        continue;
      }
      asio::co_spawn(io, serve(std::move(socket), context, Counted(context)), asio::detached);
    }
  }
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(Inference& inference, ServerOptions options) {
  const bool by_default = options.listen.empty();
  if (by_default) {
    options.listen = options.api_keys.empty() ? std::vector<std::string>{"127.0.0.1", "::1"}
                                              : std::vector<std::string>{"0.0.0.0", "::"};
  }
  RouterOptions router{.cors = std::move(options.cors),
                       .hosts = {"127.0.0.1", "::1", to_lower_ascii(host_name())},
                       .api_keys = std::move(options.api_keys)};
  router.hosts.insert(router.hosts.end(), options.listen.begin(), options.listen.end());
  auto state = std::make_unique<State>(inference, std::move(router), options.limits);
  state->port = options.port;
  for (const std::string& address : options.listen) {
    auto acceptor = listen_on(state->io, address, state->port);
    const bool spare = by_default && !state->acceptors.empty();
    if (!acceptor && spare) continue;  // a machine without IPv6
    if (!acceptor) return std::unexpected(std::move(acceptor.error()));
    state->port = acceptor->local_endpoint().port();
    state->acceptors.push_back(std::move(*acceptor));
    state->addresses.push_back(address);
  }
  for (tcp::acceptor& acceptor : state->acceptors)
    asio::co_spawn(state->io, state->accept(acceptor), asio::detached);
  state->thread = std::jthread([raw = state.get()] {
    raw->io.run();
    raw->ended.set_value();
  });
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() { close(); }

std::uint16_t Server::port() const { return state_->port; }
std::vector<std::string> Server::addresses() const { return state_->addresses; }

void Server::close() {
  if (std::exchange(state_->closed, true)) return;
  asio::post(state_->io, [state = state_.get()] {
    for (tcp::acceptor& acceptor : state->acceptors) acceptor.close();
    state->context->close();
  });
  if (state_->ended.get_future().wait_for(state_->context->limits.shutdown) !=
      std::future_status::ready)
    state_->io.stop();
  state_->thread.join();
}

}  // namespace exo::api
