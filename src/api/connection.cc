#include "api/connection.h"

#include <array>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace exo::api {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

Connection::Connection(asio::ip::tcp::socket socket, const Limits& limits)
    : stream_(std::make_shared<Stream>(std::move(socket))), limits_(limits) {
  beast::error_code ignored;
  stream_->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

asio::awaitable<bool> Connection::send_text(std::string text) {
  stream_->expires_after(limits_.write_time);
  const auto [error, bytes] = co_await asio::async_write(*stream_, asio::buffer(text), kAsTuple);
  stream_->expires_never();
  co_return !error;
}

asio::awaitable<bool> Connection::send(Reply reply, const Envelope& envelope) {
  http::response<http::string_body> response(
      http::int_to_status(static_cast<unsigned>(reply.status)), envelope.version);
  response.set("x-request-id", envelope.request_id);
  response.set("request-id", envelope.request_id);
  for (const auto& [name, value] : envelope.cors) response.set(name, value);
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  response.keep_alive(envelope.keep_alive);
  if (reply.status != 204) {
    response.set(http::field::content_type, reply.type);
    response.content_length(reply.body.size());
  }
  if (!envelope.is_head) response.body() = std::move(reply.body);
  stream_->expires_after(limits_.write_time);
  http::response_serializer<http::string_body> serializer(response);
  const auto [error, bytes] =
      envelope.is_head ? co_await http::async_write_header(*stream_, serializer, kAsTuple)
                       : co_await http::async_write(*stream_, serializer, kAsTuple);
  stream_->expires_never();
  co_return !error && envelope.keep_alive;
}

asio::awaitable<void> Connection::linger() {
  beast::error_code error;
  stream_->socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) co_return;
  stream_->expires_after(limits_.linger);
  std::array<char, 16 << 10> dropped;
  while (true) {
    const auto [failed, bytes] = co_await stream_->async_read_some(asio::buffer(dropped), kAsTuple);
    if (failed) co_return;
  }
}

}  // namespace exo::api
