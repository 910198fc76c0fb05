#include "api/session.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "api/chat_exchange.h"
#include "api/connection.h"
#include "api/http_error.h"
#include "api/reply.h"
#include "core/id.h"
#include "core/log.h"

namespace exo::api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using Parser = http::request_parser<http::string_body>;
using Request = http::request<http::string_body>;

constexpr std::uint64_t kUnwantedBodyBytes = 64 << 10;  // of a path that takes none
// More than the longest headers and one read: a chunk's header that has no end stops here.
constexpr std::size_t kReadAheadBytes = 256 << 10;

std::string text_of(const Request& request, std::string_view name) {
  const auto found = request.find(beast::string_view(name.data(), name.size()));
  return found == request.end() ? std::string() : std::string(found->value());
}

RequestHead head_of(const Request& request, std::string local_address) {
  return {.method = std::string(request.method_string()),
          .target = std::string(request.target()),
          .host = text_of(request, "Host"),
          .origin = text_of(request, "Origin"),
          .authorization = text_of(request, "Authorization"),
          .api_key = text_of(request, "x-api-key"),
          .requested_method = text_of(request, "Access-Control-Request-Method"),
          .requested_headers = text_of(request, "Access-Control-Request-Headers"),
          .anthropic_version = text_of(request, "anthropic-version"),
          .local_address = std::move(local_address)};
}

HttpError refusal(int status, std::string message) {
  return {.status = status,
          .type = status < 500 ? "invalid_request_error" : "server_error",
          .message = std::move(message)};
}

HttpError too_long(std::uint64_t limit) {
  constexpr std::uint64_t kKibi = 1 << 10, kMebi = 1 << 20;
  return refusal(413, fmt::format("the request's body is longer than {} {}",
                                  limit / (limit % kMebi == 0 ? kMebi : kKibi),
                                  limit % kMebi == 0 ? "MiB" : "KiB"));
}

HttpError no_memory_left() {
  return refusal(
      503,
      "the requests under way take all the memory that this node has for them: try again "
      "in a moment");
}

// What is wrong with the bytes that were read; nothing: the connection itself has ended.
std::optional<HttpError> refusal_of(beast::error_code error, const Limits& limits,
                                    std::uint64_t body_limit) {
  if (error == http::error::header_limit)
    return refusal(431, fmt::format("the request's headers are longer than {} KiB",
                                    limits.header_bytes >> 10));
  if (error == http::error::body_limit) return too_long(body_limit);
  const bool is_parser = error.category() == make_error_code(http::error::bad_method).category();
  if (!is_parser || error == http::error::end_of_stream || error == http::error::partial_message)
    return std::nullopt;
  return refusal(400, fmt::format("this is no HTTP request: {}", error.message()));
}

class Session {
 public:
  Session(Connection& connection, SessionContext& context)
      : connection_(connection), context_(context) {
    beast::error_code error;
    const auto local = connection.stream().socket().local_endpoint(error);
    if (!error) local_address_ = local.address().to_string();
  }

  awaitable<void> run() {
    while (!context_.closing && co_await serve_request()) {
    }
    const ClosingHook hook(context_, [this] { connection_.stream().cancel(); });
    if (!context_.closing) co_await connection_.linger();
  }

 private:
  // True: the connection stays open for a next one.
  awaitable<bool> serve_request() {
    Parser parser;
    if (!co_await read_head(parser)) co_return false;
    const RequestHead head = head_of(parser.get(), local_address_);
    envelope_ = {.request_id = "req_" + random_hex(24),
                 .cors = context_.router.cors_headers(head),
                 .version = parser.get().version(),
                 .keep_alive = parser.keep_alive(),
                 .is_head = head.method == "HEAD"};
    const auto routed = context_.router.route(head);
    const bool takes_body = routed && routed->route == Route::kChatCompletions;
    const std::uint64_t body_limit = takes_body
                                         ? context_.limits.body_bytes
                                         : std::min(context_.limits.body_bytes, kUnwantedBodyBytes);
    // A body that is not wanted is not waited for, unless it is short.
    const auto length = parser.content_length();
    if (!routed && (parser.chunked() || length.value_or(0) > body_limit))
      co_return co_await refuse(routed_error(routed.error(), head));
    if (length.value_or(0) > body_limit)
      co_return co_await refuse(error_reply(too_long(body_limit)));
    if (length.value_or(0) > context_.bodies.left())
      co_return co_await refuse(error_reply(no_memory_left()));

    BodyBudget::Share share(context_.bodies);
    if (!co_await read_body(parser, body_limit, share)) co_return false;
    if (context_.closing) envelope_.keep_alive = false;
    if (!routed) co_return co_await connection_.send(routed_error(routed.error(), head), envelope_);
    if (takes_body)
      co_return co_await serve_chat(connection_, context_, envelope_,
                                    std::move(parser.get().body()));
    co_return co_await connection_.send(reply_to(*routed, context_.inference, envelope_.request_id),
                                        envelope_);
  }

  awaitable<bool> read_head(Parser& parser) {
    const ClosingHook hook(context_, [this] { connection_.stream().cancel(); });
    parser.header_limit(context_.limits.header_bytes);
    parser.body_limit(boost::none);  // serve_request() knows the limit, by the path
    connection_.stream().expires_after(context_.limits.header_time);
    const auto [error, bytes] =
        co_await http::async_read_header(connection_.stream(), buffer_, parser, kAsTuple);
    if (!error) co_return true;
    if (const auto refused = refusal_of(error, context_.limits, context_.limits.body_bytes)) {
      const auto raw = buffer_.data();
      RequestHead head = head_of(parser.get(), local_address_);
      read_origin({static_cast<const char*>(raw.data()), raw.size()}, head);
      envelope_ = {.request_id = "req_" + random_hex(24),
                   .cors = context_.router.cors_headers(head)};
      co_await refuse(error_reply(*refused));
    }
    co_return false;
  }

  awaitable<bool> read_body(Parser& parser, std::uint64_t limit, BodyBudget::Share& share) {
    using Clock = std::chrono::steady_clock;
    const ClosingHook hook(context_, [this] { connection_.stream().cancel(); });
    parser.body_limit(limit);
    if (!parser.is_done() && beast::iequals(parser.get()[http::field::expect], "100-continue") &&
        !co_await connection_.send_text("HTTP/1.1 100 Continue\r\n\r\n"))
      co_return false;
    const auto begin = Clock::now();
    while (!parser.is_done()) {
      if (context_.closing) co_return false;
      const std::size_t received = parser.get().body().size();
      const auto pause = context_.limits.body_pause;
      const std::chrono::milliseconds earned(received * 1000 /
                                             context_.limits.body_bytes_per_second);
      connection_.stream().expires_at(std::min(Clock::now() + pause, begin + pause + earned));
      const auto [error, bytes] =
          co_await http::async_read_some(connection_.stream(), buffer_, parser, kAsTuple);
      if (error) {
        if (const auto refused = refusal_of(error, context_.limits, limit))
          co_await refuse(error_reply(*refused));
        co_return false;
      }
      if (!share.take(parser.get().body().size() - received))
        co_return co_await refuse(error_reply(no_memory_left()));
    }
    connection_.stream().expires_never();
    co_return true;
  }

  static Reply routed_error(const HttpError& error, const RequestHead& head) {
    Reply reply = error_reply(error);
    if (error.status == 405)
      reply.headers.emplace_back("Allow", Router::allowed_methods(head.target));
    return reply;
  }

  // The last reply: the rest of the request is not read. False, always.
  awaitable<bool> refuse(Reply reply) {
    envelope_.keep_alive = false;
    co_return co_await connection_.send(std::move(reply), envelope_);
  }

  Connection& connection_;
  SessionContext& context_;
  beast::flat_buffer buffer_{kReadAheadBytes};
  std::string local_address_;
  Envelope envelope_;  // of the request that is being served
};

}  // namespace

awaitable<void> run_session(asio::ip::tcp::socket socket, std::shared_ptr<SessionContext> context) {
  try {
    Connection connection(std::move(socket), context->limits);
    Session session(connection, *context);
    co_await session.run();
  } catch (const std::exception& error) {  // the outermost catch of a connection
    log::error("a connection ended unexpectedly: {}", error.what());
  }
}

}  // namespace exo::api
