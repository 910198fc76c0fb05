#include "api/server.h"

#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <list>
#include <thread>
#include <unistd.h>
#include <utility>

#include <boost/asio.hpp>

#include "api/session.h"
#include "core/log.h"

namespace exo::api {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMaxConnections = 1024;
constexpr std::chrono::seconds kGrace{3};

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

}  // namespace

struct Server::State {
  asio::io_context io{1};
  std::shared_ptr<SessionContext> context = std::make_shared<SessionContext>();
  std::list<tcp::acceptor> acceptors;
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  std::atomic<std::size_t> connections = 0;
  std::jthread thread;
  bool closed = false;

  // Counts a session for as long as it lives, whatever ends it.
  struct Counted {
    std::atomic<std::size_t>* count;
    explicit Counted(std::atomic<std::size_t>& counter) : count(&counter) { ++*count; }
    Counted(Counted&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
    Counted& operator=(Counted&&) = delete;
    ~Counted() {
      if (count != nullptr) --*count;
    }
  };

  static asio::awaitable<void> serve(tcp::socket socket, std::shared_ptr<SessionContext> context,
                                     Counted) {
    co_await run_session(std::move(socket), std::move(context));
  }

  asio::awaitable<void> accept(tcp::acceptor& acceptor) {
    while (acceptor.is_open()) {
      auto [error, socket] = co_await acceptor.async_accept(kToken);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // out of descriptors, most likely: wait instead of spinning
        asio::steady_timer pause(io, std::chrono::milliseconds(100));
        co_await pause.async_wait(kToken);
        continue;
      }
      if (connections.load() >= kMaxConnections) continue;  // closes it
      asio::co_spawn(io, serve(std::move(socket), context, Counted(connections)), asio::detached);
    }
  }
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(Inference& inference, ServerOptions options) {
  auto state = std::make_unique<State>();
  const bool by_default = options.listen.empty();
  if (by_default) {
    options.listen = options.api_keys.empty() ? std::vector<std::string>{"127.0.0.1", "::1"}
                                              : std::vector<std::string>{"0.0.0.0", "::"};
  }
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
  RouterOptions router{.cors = std::move(options.cors),
                       .hosts = {"127.0.0.1", "::1", host_name()},
                       .api_keys = std::move(options.api_keys)};
  router.hosts.insert(router.hosts.end(), state->addresses.begin(), state->addresses.end());
  state->context->inference = &inference;
  state->context->router = Router(std::move(router));
  for (tcp::acceptor& acceptor : state->acceptors)
    asio::co_spawn(state->io, state->accept(acceptor), asio::detached);
  state->thread = std::jthread([raw = state.get()] { raw->io.run(); });
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() { close(); }

std::uint16_t Server::port() const { return state_->port; }
std::vector<std::string> Server::addresses() const { return state_->addresses; }

void Server::close() {
  if (std::exchange(state_->closed, true)) return;
  asio::post(state_->io, [state = state_.get()] {
    state->context->closing = true;
    for (tcp::acceptor& acceptor : state->acceptors) acceptor.close();
  });
  // Replies that are under way end by themselves: their generations were ended before. Connections
  // that only wait for a next request are cut.
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  const auto idle = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (state_->connections.load() > 0 &&
         std::chrono::steady_clock::now() < (state_->context->busy.load() > 0 ? deadline : idle)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  state_->io.stop();
  state_->thread.join();
}

}  // namespace exo::api
