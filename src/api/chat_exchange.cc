#include "api/chat_exchange.h"

#include <chrono>
#include <ctime>
#include <deque>
#include <expected>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <poll.h>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <nlohmann/json.hpp>

#include "api/chat_request.h"
#include "api/chat_response.h"
#include "api/http_error.h"
#include "api/sampling_defaults.h"
#include "core/id.h"

namespace exo::api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::awaitable;
using protocol::Chunk;
using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kLookInterval{200};
constexpr std::size_t kMaxWaitingChunks =
    1 << 16;  // of a client that reads more slowly than we write

// The chunks of a generation on their way from the runner's thread to this connection's. All of it
// on the server's thread.
struct Mailbox {
  explicit Mailbox(const asio::any_io_executor& executor) : wake(executor) {}

  std::deque<Chunk> chunks;
  bool client_gone = false;
  bool answered = false;  // nobody waits any more
  asio::steady_timer wake;

  void put(Chunk chunk) {
    chunks.push_back(std::move(chunk));
    wake.cancel();
  }
  std::optional<Chunk> take() {
    if (chunks.empty()) return std::nullopt;
    std::optional<Chunk> chunk(std::move(chunks.front()));
    chunks.pop_front();
    return chunk;
  }
};

// Notices the client's end of the connection, also behind bytes of a next request that nobody reads
// yet.
awaitable<void> watch_client(std::shared_ptr<Connection::Stream> stream,
                             std::shared_ptr<Mailbox> mailbox) {
  const auto [error] = co_await stream->socket().async_wait(asio::socket_base::wait_read, kAsTuple);
  asio::steady_timer pause(stream->get_executor());
  while (!mailbox->answered) {
    pollfd socket{.fd = stream->socket().native_handle(), .events = POLLRDHUP, .revents = 0};
    if (error || ::poll(&socket, 1, 0) != 0) {
      mailbox->client_gone = true;
      mailbox->wake.cancel();
      co_return;
    }
    // The waiting bytes would wake a wait for more of them at once, so look now and then.
    pause.expires_after(kLookInterval);
    co_await pause.async_wait(kAsTuple);
  }
}

// The next chunk; nothing when `deadline` has passed or the client has gone.
awaitable<std::optional<Chunk>> next_chunk(Mailbox& mailbox, TimePoint deadline) {
  while (mailbox.chunks.empty() && !mailbox.client_gone &&
         std::chrono::steady_clock::now() < deadline) {
    mailbox.wake.expires_at(deadline);
    co_await mailbox.wake.async_wait(kAsTuple);
  }
  if (mailbox.client_gone) co_return std::nullopt;
  co_return mailbox.take();
}

struct Begun {
  std::unique_ptr<Generation> generation;
  ChatHeader header;
  bool streamed = false;
};

// Starts the generation; everything that can be refused before it runs is refused here. Takes the
// body, since it may be long and is needed no longer.
std::expected<Begun, HttpError> begin(Inference& inference, std::string body,
                                      const std::shared_ptr<Mailbox>& mailbox) {
  const auto json = parse_json(body);
  if (!json)
    return std::unexpected(HttpError{.status = 400,
                                     .type = "invalid_request_error",
                                     .message = "the request's body: " + to_string(json.error())});
  auto chat = parse_chat_request(*json);
  if (!chat) return std::unexpected(http_error(chat.error()));
  const auto model = inference.resolve(chat->request.model.value);
  if (!model) return std::unexpected(unknown_model(model.error()));
  chat->request.model = model->id;
  apply_card_defaults(chat->request, model->card);
  Begun begun{.generation = nullptr,
              .header = {.command = CommandId{random_uuid()},
                         .model = model->id.value,
                         .created = std::time(nullptr),
                         .logprobs = chat->request.logprobs,
                         .include_usage = chat->include_usage},
              .streamed = chat->request.stream};
  // Weak, since a runner may keep the callback for longer than the server lives.
  auto generation = inference.generate(
      begun.header.command, std::move(chat->request),
      [weak = std::weak_ptr(mailbox), executor = mailbox->wake.get_executor()](Chunk chunk) {
        asio::post(executor, [weak, chunk = std::move(chunk)]() mutable {
          if (const auto box = weak.lock()) box->put(std::move(chunk));
        });
      });
  if (!generation) return std::unexpected(http_error(generation.error()));
  begun.generation = std::move(*generation);
  return begun;
}

// Sends what a generation yields.
class ChatExchange {
 public:
  ChatExchange(Connection& connection, const Limits& limits, Envelope envelope, ChatHeader header,
               Mailbox& mailbox)
      : connection_(connection),
        limits_(limits),
        envelope_(std::move(envelope)),
        header_(std::move(header)),
        mailbox_(mailbox) {}

  // True: the connection stays open.
  awaitable<bool> reply() {
    ChatReply collected(header_);
    while (true) {
      const auto chunk =
          co_await next_chunk(mailbox_, std::chrono::steady_clock::now() + std::chrono::hours(1));
      if (mailbox_.client_gone) co_return false;
      if (!chunk) continue;
      if (const auto* token = std::get_if<protocol::TokenChunk>(&*chunk)) collected.add(*token);
      if (const auto* failed = std::get_if<protocol::ErrorChunk>(&*chunk))
        co_return co_await send(error_reply(http_error(failed->error)));
      if (const auto* end = std::get_if<protocol::FinishChunk>(&*chunk))
        co_return co_await send(json_reply(200, collected.body(*end)));
    }
  }

  // Headers wait for the runner's word, so that what it refuses has a real status; but no longer
  // than a client's patience.
  awaitable<bool> stream() {
    auto chunk = co_await next_chunk(mailbox_, silence_ends());
    if (chunk) {
      if (const auto* failed = std::get_if<protocol::ErrorChunk>(&*chunk))
        co_return co_await send(error_reply(http_error(failed->error)));
    }
    if (mailbox_.client_gone || !co_await connection_.send_text(stream_head())) co_return false;
    ChatStream wire(header_);
    std::string events = ChatStream::keep_alive();
    bool ended = false;
    while (true) {
      for (; chunk && !ended; chunk = mailbox_.take()) {
        events += wire.events(*chunk);
        ended = protocol::is_terminal(*chunk);
      }
      if (events.empty()) events = ChatStream::keep_alive();
      if (!co_await connection_.send_text(framed(events)) || mailbox_.client_gone ||
          mailbox_.chunks.size() > kMaxWaitingChunks)
        co_return false;
      if (ended) break;
      events.clear();
      chunk = co_await next_chunk(mailbox_, silence_ends());
      if (mailbox_.client_gone) co_return false;
    }
    if (envelope_.version >= 11) co_await connection_.send_text("0\r\n\r\n");
    co_return false;  // the headers said so
  }

 private:
  TimePoint silence_ends() const { return std::chrono::steady_clock::now() + limits_.silence; }

  awaitable<bool> send(Reply reply) {
    reply.headers.emplace_back("x-exo-command-id", header_.command.value);
    co_return co_await connection_.send(std::move(reply), envelope_);
  }

  std::string stream_head() const {
    std::string head = fmt::format(
        "HTTP/{} 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: "
        "no-cache\r\nConnection: close\r\nX-Accel-Buffering: no\r\n"
        "x-request-id: {}\r\nrequest-id: {}\r\nx-exo-command-id: {}\r\n",
        envelope_.version >= 11 ? "1.1" : "1.0", envelope_.request_id, envelope_.request_id,
        header_.command.value);
    for (const auto& [name, value] : envelope_.cors) head += fmt::format("{}: {}\r\n", name, value);
    return head + (envelope_.version >= 11 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
  }

  std::string framed(const std::string& events) const {
    return envelope_.version >= 11 ? fmt::format("{:x}\r\n{}\r\n", events.size(), events) : events;
  }

  Connection& connection_;
  const Limits& limits_;
  const Envelope envelope_;
  const ChatHeader header_;
  Mailbox& mailbox_;
};

}  // namespace

awaitable<bool> serve_chat(Connection& connection, SessionContext& context, Envelope envelope,
                           std::string body) {
  auto mailbox = std::make_shared<Mailbox>(connection.stream().get_executor());
  auto begun = begin(context.inference, std::move(body), mailbox);
  if (!begun) co_return co_await connection.send(error_reply(begun.error()), envelope);
  const ClosingHook hook(context, [box = mailbox.get()] {
    box->put(protocol::ErrorChunk{
        {ErrorCode::kUnavailable, "this node is shutting down", /*subject=*/{}}});
  });
  asio::co_spawn(connection.stream().get_executor(),
                 watch_client(connection.share_stream(), mailbox), asio::detached);
  ChatExchange exchange(connection, context.limits, std::move(envelope), std::move(begun->header),
                        *mailbox);
  const bool keep = begun->streamed ? co_await exchange.stream() : co_await exchange.reply();
  mailbox->answered = true;
  begun->generation.reset();  // one that still runs is cancelled
  beast::error_code ignored;
  connection.stream().socket().cancel(ignored);  // ends the watch
  co_return keep;
}

}  // namespace exo::api
