#include "app/node_client.h"

#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "app/sse.h"

namespace exo::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
// A node that is alive sends a keep-alive at least every 15 s.
constexpr std::chrono::seconds kSilenceLimit{120};
constexpr std::size_t kMaxBody = std::size_t{64} << 20;

struct Call {
  std::string host;
  std::uint16_t port;
  http::request<http::string_body> request;
};

std::unexpected<Error> connect_error(const Call& call, const beast::error_code& error) {
  return fail(ErrorCode::kUnavailable, fmt::format("no node answers at {} port {}: {}", call.host,
                                                   call.port, error.message()));
}

std::unexpected<Error> broken(const beast::error_code& error) {
  if (error == beast::error::timeout) {
    return fail(ErrorCode::kTimedOut, "the node has stopped answering");
  }
  return fail(ErrorCode::kIo,
              fmt::format("the connection to the node broke off: {}", error.message()));
}

// Runs one exchange: the body's bytes go to `on_bytes` as they come, whole error bodies become an
// error.
asio::awaitable<Result<void>> exchange(
    beast::tcp_stream& stream, const Call& call,
    const std::function<Result<void>(std::string_view)>& on_bytes) {
  beast::error_code error;
  const auto address = asio::ip::make_address(call.host, error);
  if (error) co_return fail(ErrorCode::kInvalidInput, "not an IP address", call.host);
  stream.expires_after(kSilenceLimit);
  std::tie(error) = co_await stream.async_connect({address, call.port}, kToken);
  if (error) co_return connect_error(call, error);
  std::size_t count = 0;
  std::tie(error, count) = co_await http::async_write(stream, call.request, kToken);
  if (error) co_return broken(error);

  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  std::tie(error, count) = co_await http::async_read_header(stream, buffer, parser, kToken);
  if (error) co_return broken(error);
  const unsigned status = parser.get().result_int();
  std::string error_body;
  std::array<char, 16384> piece{};
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    parser.get().body().more = true;
    stream.expires_after(kSilenceLimit);
    std::tie(error, count) = co_await http::async_read_some(stream, buffer, parser, kToken);
    if (error && error != http::error::need_buffer) co_return broken(error);
    const std::string_view got(piece.data(), piece.size() - parser.get().body().size);
    if (status >= 400) {
      error_body += got.substr(0, kMaxBody - std::min(kMaxBody, error_body.size()));
    } else {
      EXO_CO_TRY(on_bytes(got));
    }
  }
  if (status >= 400) co_return std::unexpected(error_from_body(status, error_body));
  co_return Result<void>{};
}

Result<void> run_exchange(const Call& call,
                          const std::function<Result<void>(std::string_view)>& on_bytes,
                          std::stop_token stop) {
  asio::io_context context(1);
  beast::tcp_stream stream(context);
  Result<void> result = fail(ErrorCode::kCancelled, "stopped");
  const std::stop_callback on_stop(stop, [&] { context.stop(); });
  asio::co_spawn(context, exchange(stream, call, on_bytes),
                 [&](std::exception_ptr thrown, Result<void> outcome) {
                   if (thrown) {
                     result = fail(ErrorCode::kInternal, "the connection broke unexpectedly");
                   } else {
                     result = std::move(outcome);
                   }
                 });
  context.run();
  return result;
}

Call make_call(const std::string& host, std::uint16_t port, const std::string& api_key,
               http::verb verb, std::string_view path, std::string body) {
  Call call{.host = host, .port = port, .request = {verb, path, 11}};
  const bool is_v6 = host.find(':') != std::string::npos;
  call.request.set(http::field::host,
                   is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port));
  call.request.set(http::field::user_agent, "exo");
  call.request.set(http::field::connection, "close");
  if (!api_key.empty()) call.request.set(http::field::authorization, "Bearer " + api_key);
  if (!body.empty()) {
    call.request.set(http::field::content_type, "application/json");
    call.request.body() = std::move(body);
    call.request.prepare_payload();
  }
  return call;
}

std::string text_or(const Json& json, std::string_view key, std::string fallback) {
  if (!json.is_object()) return fallback;
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}

std::int64_t number_or(const Json& json, std::string_view key, std::int64_t fallback) {
  if (!json.is_object()) return fallback;
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : fallback;
}

ErrorCode code_of_status(unsigned status) {
  switch (status) {
    case 400:
    case 422:
      return ErrorCode::kInvalidInput;
    case 401:
    case 403:
      return ErrorCode::kPermission;
    case 404:
      return ErrorCode::kNotFound;
    case 429:
      return ErrorCode::kBusy;
    case 503:
      return ErrorCode::kUnavailable;
    case 504:
      return ErrorCode::kTimedOut;
    default:
      return ErrorCode::kInternal;
  }
}

// What {"error": {"message": …, "code": …}} or {"error": "…"} says; nothing if `json` is neither.
std::optional<Error> error_in(const Json& json, ErrorCode code) {
  if (!json.is_object()) return std::nullopt;
  const auto error = json.find("error");
  if (error == json.end()) return std::nullopt;
  if (error->is_string()) return Error{code, error->get<std::string>(), {}};
  if (text_or(*error, "code", "") == "context_length_exceeded") code = ErrorCode::kContextLength;
  return Error{
      code, text_or(*error, "message", "the node reports an error without saying which"), {}};
}

}  // namespace

Error error_from_body(unsigned status, std::string_view body) {
  const ErrorCode code = code_of_status(status);
  if (const auto json = parse_json(body)) {
    if (auto error = error_in(*json, code)) return *std::move(error);
  }
  return {code, fmt::format("the node answered with HTTP status {}", status), {}};
}

Result<std::string> apply_chat_event(ChatOutcome& outcome, std::string_view data) {
  if (data == "[DONE]") return std::string();
  const auto json = parse_json(data);
  if (!json || !json->is_object()) {
    return fail(ErrorCode::kIo, "the node sent an event that is not a JSON object");
  }
  if (auto error = error_in(*json, ErrorCode::kInternal)) return std::unexpected(*std::move(error));
  if (const auto usage = json->find("usage"); usage != json->end()) {
    outcome.prompt_tokens = number_or(*usage, "prompt_tokens", outcome.prompt_tokens);
    outcome.completion_tokens = number_or(*usage, "completion_tokens", outcome.completion_tokens);
  }
  const auto choices = json->find("choices");
  if (choices == json->end() || !choices->is_array() || choices->empty()) return std::string();
  const Json& choice = choices->front();
  outcome.finish_reason = text_or(choice, "finish_reason", outcome.finish_reason);
  if (!choice.is_object() || !choice.contains("delta")) return std::string();
  std::string text = text_or(choice["delta"], "content", "");
  outcome.text += text;
  return text;
}

NodeClient::NodeClient(std::string host, std::uint16_t port, std::string api_key)
    : host_(std::move(host)), api_key_(std::move(api_key)), port_(port) {}

Result<Json> NodeClient::get(std::string_view path) {
  std::string body;
  const auto append = [&](std::string_view bytes) -> Result<void> {
    if (body.size() + bytes.size() > kMaxBody) {
      return fail(ErrorCode::kIo, "the node's answer is too long");
    }
    body += bytes;
    return {};
  };
  EXO_TRY(run_exchange(make_call(host_, port_, api_key_, http::verb::get, path, ""), append, {}));
  return parse_json(body);
}

Result<ChatOutcome> NodeClient::stream_chat(const Json& body,
                                            const std::function<void(std::string_view)>& on_text,
                                            std::stop_token stop) {
  ChatOutcome outcome;
  SseParser parser;
  const auto consume = [&](std::string_view bytes) -> Result<void> {
    for (const std::string& event : parser.push(bytes)) {
      EXO_TRY(const std::string text, apply_chat_event(outcome, event));
      if (!text.empty()) on_text(text);
    }
    return {};
  };
  const Call call =
      make_call(host_, port_, api_key_, http::verb::post, "/v1/chat/completions", dump_json(body));
  const auto result = run_exchange(call, consume, stop);
  outcome.stopped = stop.stop_requested();
  if (!result && !outcome.stopped) return std::unexpected(result.error());
  return outcome;
}

}  // namespace exo::app
