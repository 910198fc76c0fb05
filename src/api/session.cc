#include "api/session.h"

#include <chrono>
#include <ctime>
#include <deque>
#include <fmt/format.h>
#include <poll.h>
#include <string>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "api/chat_request.h"
#include "api/chat_response.h"
#include "api/http_error.h"
#include "api/models_body.h"
#include "core/id.h"
#include "core/log.h"

namespace exo::api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using protocol::Chunk;
using std::chrono::seconds;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
constexpr std::uint64_t kMaxBodyBytes = std::uint64_t{100} << 20;
constexpr seconds kReadTimeout{60}, kWriteTimeout{60}, kKeepAlive{10};
constexpr std::chrono::milliseconds kLookInterval{200};
constexpr std::size_t kMaxWaitingChunks =
    1 << 16;  // of a client that reads more slowly than we write

using Stream = beast::tcp_stream;
using Request = http::request<http::string_body>;

std::string text_of(const Request& request, std::string_view name) {
  const auto found = request.find(beast::string_view(name.data(), name.size()));
  return found == request.end() ? std::string() : std::string(found->value());
}

RequestHead head_of(const Request& request) {
  return {.method = std::string(request.method_string()),
          .target = std::string(request.target()),
          .host = text_of(request, "Host"),
          .origin = text_of(request, "Origin"),
          .authorization = text_of(request, "Authorization"),
          .api_key = text_of(request, "x-api-key"),
          .requested_method = text_of(request, "Access-Control-Request-Method"),
          .requested_headers = text_of(request, "Access-Control-Request-Headers")};
}

struct Reply {
  int status = 200;
  std::string type = "application/json", body = {};
  Headers headers = {};
};

Reply json_reply(int status, const Json& body) {
  return {.status = status, .body = dump_json(body)};
}

Reply error_reply(const HttpError& error) {
  Reply reply = json_reply(error.status, error_body(error));
  if (error.status == 429) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

// The chunks of a generation on their way from the runner's thread to this connection's. All but
// post() on the server's thread.
struct Mailbox {
  explicit Mailbox(const asio::any_io_executor& executor) : wake(executor) {}

  std::deque<Chunk> chunks;
  bool client_gone = false;
  bool answered = false;  // nobody waits any more
  asio::steady_timer wake;

  void notify() { wake.cancel(); }
};

// Notices the client's end of the connection, also behind bytes of a next request that nobody reads
// yet.
awaitable<void> watch_client(std::shared_ptr<Stream> stream, std::shared_ptr<Mailbox> mailbox) {
  const auto [error] = co_await stream->socket().async_wait(asio::socket_base::wait_read, kToken);
  asio::steady_timer pause(stream->get_executor());
  while (!mailbox->answered) {
    pollfd socket{.fd = stream->socket().native_handle(), .events = POLLRDHUP, .revents = 0};
    if (error || ::poll(&socket, 1, 0) != 0) {
      mailbox->client_gone = true;
      mailbox->notify();
      co_return;
    }
    // The waiting bytes would wake a wait for more of them at once, so look now and then.
    pause.expires_after(kLookInterval);
    co_await pause.async_wait(kToken);
  }
}

class Session {
 public:
  Session(std::shared_ptr<Stream> stream, std::shared_ptr<SessionContext> context)
      : stream_(std::move(stream)), context_(std::move(context)) {}

  awaitable<void> run() {
    while (!context_->closing) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(kMaxHeaderBytes);
      parser.body_limit(kMaxBodyBytes);
      stream_->expires_after(kReadTimeout);
      const auto [header_error, header_bytes] =
          co_await http::async_read_header(*stream_, buffer_, parser, kToken);
      if (header_error) {
        if (header_error == http::error::header_limit) {
          co_await refuse(431, "the request's headers are too long");
        } else if (header_error == http::error::body_limit) {
          co_await refuse(413, "the request's body is longer than 100 MiB");
        } else if (header_error.category() == make_error_code(http::error::bad_method).category() &&
                   header_error != http::error::end_of_stream &&
                   header_error != http::error::partial_message) {
          co_await refuse(400, "this is no HTTP request");
        }
        co_return;
      }
      if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
        co_await send_text("HTTP/1.1 100 Continue\r\n\r\n");
      }
      while (!parser.is_done()) {
        stream_->expires_after(kReadTimeout);
        const auto [error, bytes] =
            co_await http::async_read_some(*stream_, buffer_, parser, kToken);
        if (error == http::error::body_limit)
          co_await refuse(413, "the request's body is longer than 100 MiB");
        if (error) co_return;
      }
      stream_->expires_never();
      ++context_->busy;
      const bool keep = co_await answer(parser.release());
      --context_->busy;
      if (!keep) co_return;
    }
  }

 private:
  awaitable<bool> send_text(std::string text) {
    stream_->expires_after(kWriteTimeout);
    const auto [error, bytes] = co_await asio::async_write(*stream_, asio::buffer(text), kToken);
    stream_->expires_never();
    co_return !error;
  }

  awaitable<void> refuse(int status, std::string message) {
    const HttpError error{
        .status = status, .type = "invalid_request_error", .message = std::move(message)};
    const std::string body = dump_json(error_body(error));
    const std::string reason(
        http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status))));
    co_await send_text(
        fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: "
                    "{}\r\nConnection: close\r\nx-request-id: {}\r\n\r\n{}",
                    status, reason, body.size(), "req_" + random_hex(24), body));
  }

  // True: the connection stays open.
  awaitable<bool> answer(Request request) {
    const RequestHead head = head_of(request);
    request_id_ = "req_" + random_hex(24);
    cors_ = context_->router.cors_headers(head);
    keep_alive_ = request.keep_alive() && !context_->closing;
    version_ = request.version();
    is_head_ = head.method == "HEAD";
    const auto routed = context_->router.route(head);
    if (!routed) {
      Reply reply = error_reply(routed.error());
      if (routed.error().status == 405)
        reply.headers.emplace_back("Allow", Router::allowed_methods(head.target));
      co_return co_await send(std::move(reply));
    }
    if (routed->route == Route::kChatCompletions) co_return co_await serve_chat(request.body());
    co_return co_await send(reply_to(*routed));
  }

  Reply reply_to(const Routed& routed) {
    Inference& inference = *context_->inference;
    switch (routed.route) {
      case Route::kRoot:
        return {.type = "text/plain; charset=utf-8",
                .body =
                    "exo is running. OpenAI clients: base_url = http://<this host>/v1; models: GET "
                    "/v1/models.\n"};
      case Route::kHealth: {
        const std::string problem = inference.health_problem();
        if (problem.empty()) return json_reply(200, {{"status", "ok"}});
        return json_reply(503, {{"status", "unavailable"}, {"reason", problem}});
      }
      case Route::kModels:
        return json_reply(200, models_body(inference.models()));
      case Route::kModel:
        return model_reply(routed.parameter);
      case Route::kCancel:
        // A client knows the completion's id, which is the command's with a prefix.
        if (inference.cancel(CommandId{
                routed.parameter.substr(routed.parameter.starts_with("chatcmpl-") ? 9 : 0)})) {
          return json_reply(200,
                            {{"message", "Command cancelled."}, {"command_id", routed.parameter}});
        }
        return json_reply(404, {{"error",
                                 {{"message", "Command not found or already completed"},
                                  {"type", "Not Found"},
                                  {"param", nullptr},
                                  {"code", 404}}}});
      case Route::kPreflight:
        return {.type = "text/plain; charset=utf-8", .body = "OK"};
      case Route::kOptions:
        return {.status = 204, .headers = {{"Allow", routed.allow}}};
      case Route::kChatCompletions:
        break;
    }
    return error_reply({.message = "no reply for this route"});
  }

  Reply model_reply(const std::string& id) {
    const auto model = context_->inference->resolve(id);
    if (!model) return error_reply(http_error(model.error()));
    for (const ModelState& state : context_->inference->models()) {
      if (state.model.id == model->id) return json_reply(200, model_body(state));
    }
    return json_reply(200, model_body({.model = *model}));
  }

  awaitable<bool> send(Reply reply) {
    http::response<http::string_body> response(
        http::int_to_status(static_cast<unsigned>(reply.status)), version_);
    if (reply.status != 204) response.set(http::field::content_type, reply.type);
    add_headers(response, reply.headers);
    response.keep_alive(keep_alive_);
    const std::size_t size = reply.body.size();
    if (!is_head_) response.body() = std::move(reply.body);
    if (reply.status != 204) response.content_length(size);
    stream_->expires_after(kWriteTimeout);
    http::response_serializer<http::string_body> serializer(response);
    const auto [error, bytes] =
        is_head_ ? co_await http::async_write_header(*stream_, serializer, kToken)
                 : co_await http::async_write(*stream_, serializer, kToken);
    stream_->expires_never();
    co_return !error && keep_alive_;
  }

  template <typename Response>
  void add_headers(Response& response, const Headers& more) const {
    response.set("x-request-id", request_id_);
    response.set("request-id", request_id_);
    for (const Headers* headers : {&cors_, &more}) {
      for (const auto& [name, value] : *headers) response.set(name, value);
    }
  }

  // Starts the generation; everything that can be refused before it runs is refused here.
  std::expected<std::unique_ptr<Generation>, HttpError> begin(
      const std::string& body, ChatHeader& header, bool& streamed,
      const std::shared_ptr<Mailbox>& mailbox) {
    const auto json = parse_json(body);
    if (!json) {
      return std::unexpected(
          HttpError{.status = 400,
                    .type = "invalid_request_error",
                    .message = "the request's body: " + to_string(json.error())});
    }
    auto chat = parse_chat_request(*json);
    if (!chat) return std::unexpected(http_error(chat.error()));
    const auto model = context_->inference->resolve(chat->request.model.value);
    if (!model) return std::unexpected(http_error(model.error()));
    chat->request.model = model->id;
    streamed = chat->request.stream;
    header = {.command = CommandId{random_uuid()},
              .model = model->id.value,
              .created = std::time(nullptr),
              .logprobs = chat->request.logprobs,
              .include_usage = chat->include_usage};
    auto generation = context_->inference->generate(
        header.command, std::move(chat->request),
        [mailbox, executor = stream_->get_executor()](Chunk chunk) {
          asio::post(executor, [mailbox, chunk = std::move(chunk)]() mutable {
            mailbox->chunks.push_back(std::move(chunk));
            mailbox->notify();
          });
        });
    if (!generation) return std::unexpected(http_error(generation.error()));
    return std::move(*generation);
  }

  awaitable<bool> serve_chat(std::string body) {
    auto mailbox = std::make_shared<Mailbox>(stream_->get_executor());
    ChatHeader header;
    bool streamed = false;
    auto generation = begin(body, header, streamed, mailbox);
    if (!generation) co_return co_await send(error_reply(generation.error()));
    asio::co_spawn(stream_->get_executor(), watch_client(stream_, mailbox), asio::detached);
    const bool keep =
        streamed ? co_await stream_chat(header, *mailbox) : co_await reply_chat(header, *mailbox);
    mailbox->answered = true;
    generation->reset();  // a generation that still runs is cancelled
    beast::error_code ignored;
    stream_->socket().cancel(ignored);  // ends the watch
    co_return keep;
  }

  // The next chunk; nothing when `deadline` has passed or the client has gone.
  awaitable<std::optional<Chunk>> next_chunk(Mailbox& mailbox,
                                             std::chrono::steady_clock::time_point deadline) {
    while (mailbox.chunks.empty() && !mailbox.client_gone &&
           std::chrono::steady_clock::now() < deadline) {
      mailbox.wake.expires_at(deadline);
      co_await mailbox.wake.async_wait(kToken);
    }
    if (mailbox.client_gone || mailbox.chunks.empty()) co_return std::nullopt;
    std::optional<Chunk> chunk(std::move(mailbox.chunks.front()));
    mailbox.chunks.pop_front();
    co_return chunk;
  }

  awaitable<bool> reply_chat(ChatHeader header, Mailbox& mailbox) {
    ChatReply collected(header);
    while (true) {
      const auto chunk =
          co_await next_chunk(mailbox, std::chrono::steady_clock::now() + std::chrono::hours(1));
      if (mailbox.client_gone) co_return false;
      if (!chunk) continue;
      if (const auto* token = std::get_if<protocol::TokenChunk>(&*chunk)) collected.add(*token);
      if (!protocol::is_terminal(*chunk)) continue;
      Reply reply;
      if (const auto* failed = std::get_if<protocol::ErrorChunk>(&*chunk)) {
        reply = error_reply(http_error(failed->error));
      } else {
        reply = json_reply(200, collected.body(std::get<protocol::FinishChunk>(*chunk)));
      }
      reply.headers.emplace_back("x-exo-command-id", header.command.value);
      co_return co_await send(std::move(reply));
    }
  }

  // Headers wait for the runner's word, so that what it refuses has a real status; but no longer
  // than a client's patience.
  awaitable<bool> stream_chat(ChatHeader header, Mailbox& mailbox) {
    const ChatStream wire(header);
    auto first = co_await next_chunk(mailbox, std::chrono::steady_clock::now() + kKeepAlive);
    if (mailbox.client_gone) co_return false;
    if (first) {
      if (const auto* failed = std::get_if<protocol::ErrorChunk>(&*first)) {
        Reply reply = error_reply(http_error(failed->error));
        reply.headers.emplace_back("x-exo-command-id", header.command.value);
        co_return co_await send(std::move(reply));
      }
    }
    if (!co_await send_text(stream_head(header))) co_return false;
    bool ended = false;
    std::string events = ChatStream::keep_alive() + wire.begin();
    while (true) {
      for (std::optional<Chunk> chunk = std::move(first); chunk && !ended; chunk = take(mailbox)) {
        events += wire.events(*chunk);
        ended = protocol::is_terminal(*chunk);
      }
      first.reset();
      if (events.empty()) events = ChatStream::keep_alive();
      if (!co_await send_text(framed(events)) || mailbox.client_gone ||
          mailbox.chunks.size() > kMaxWaitingChunks)
        co_return false;
      if (ended) {
        co_await send_text(version_ >= 11 ? "0\r\n\r\n" : "");
        co_return false;  // the headers said so
      }
      events.clear();
      first = co_await next_chunk(mailbox, std::chrono::steady_clock::now() + kKeepAlive);
      if (mailbox.client_gone) co_return false;
    }
  }

  static std::optional<Chunk> take(Mailbox& mailbox) {
    if (mailbox.chunks.empty()) return std::nullopt;
    std::optional<Chunk> chunk(std::move(mailbox.chunks.front()));
    mailbox.chunks.pop_front();
    return chunk;
  }

  std::string stream_head(const ChatHeader& header) const {
    std::string head = fmt::format(
        "HTTP/{} 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: "
        "no-cache\r\nConnection: close\r\nX-Accel-Buffering: no\r\n"
        "x-request-id: {}\r\nrequest-id: {}\r\nx-exo-command-id: {}\r\n",
        version_ >= 11 ? "1.1" : "1.0", request_id_, request_id_, header.command.value);
    for (const auto& [name, value] : cors_) head += fmt::format("{}: {}\r\n", name, value);
    return head + (version_ >= 11 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
  }

  std::string framed(const std::string& events) const {
    return version_ >= 11 ? fmt::format("{:x}\r\n{}\r\n", events.size(), events) : events;
  }

  std::shared_ptr<Stream> stream_;
  std::shared_ptr<SessionContext> context_;
  beast::flat_buffer buffer_;
  std::string request_id_;
  Headers cors_;
  bool keep_alive_ = true, is_head_ = false;
  unsigned version_ = 11;
};

}  // namespace

awaitable<void> run_session(asio::ip::tcp::socket socket, std::shared_ptr<SessionContext> context) {
  auto stream = std::make_shared<Stream>(std::move(socket));
  try {
    beast::error_code ignored;
    stream->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    Session session(stream, std::move(context));
    co_await session.run();
    stream->socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  } catch (const std::exception& error) {  // the outermost catch of a connection
    log::error("a connection ended unexpectedly: {}", error.what());
  }
}

}  // namespace exo::api
