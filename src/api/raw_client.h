// An HTTP client that may send any bytes, and break off anywhere. Only tests include it.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>

#include "core/descriptor.h"
#include "core/strings.h"

namespace exo::api {

struct Response {
  int status = 0;                                   // 0: none came
  std::map<std::string, std::string> headers = {};  // by lower-case name
  std::string body = {};                            // chunks joined

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

class RawClient {
 public:
  // With a small `receive_buffer`, a client that does not read is noticed early.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0)
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      socket_ = Descriptor(-1);
  }

  // False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void end_sending() { ::shutdown(socket_.get(), SHUT_WR); }
  void close() { socket_ = Descriptor(-1); }

  // Whether the other side ends the connection within `milliseconds`; drops what it sends.
  bool ends_within(int milliseconds) {
    const timeval patience{.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char dropped[4096];
    ssize_t got = 0;
    while ((got = ::recv(socket_.get(), dropped, sizeof dropped, 0)) > 0) {
    }
    return got == 0 || errno == ECONNRESET;
  }

  // All bytes up to and with `marker`, or to the end.
  std::string read_until(std::string_view marker) {
    std::size_t found = 0;
    while ((found = buffer_.find(marker)) == std::string::npos && receive()) {
    }
    return take(found == std::string::npos ? buffer_.size() : found + marker.size());
  }
  std::string read_to_end() {
    while (receive()) {
    }
    return take(buffer_.size());
  }
  // The status line and headers alone.
  Response read_head() {
    Response response;
    const std::string head = read_until("\r\n\r\n");
    const auto lines = split(head, '\n');
    if (lines[0].size() < 12 || !head.ends_with("\r\n\r\n")) return response;
    std::from_chars(lines[0].data() + 9, lines[0].data() + 12, response.status);
    for (const std::string_view line : lines) {
      if (const std::size_t colon = line.find(':'); colon != std::string_view::npos)
        response.headers[to_lower_ascii(line.substr(0, colon))] = trim(line.substr(colon + 1));
    }
    return response;
  }
  // One response; `to_head` is one without its body.
  Response read(bool to_head = false) {
    Response response = read_head();
    if (to_head) return response;
    if (response.header("transfer-encoding") == "chunked") {
      for (std::string piece; !(piece = read_chunk()).empty();) response.body += piece;
      return response;
    }
    const std::string length = response.header("content-length");
    std::size_t wanted = 0;
    std::from_chars(length.data(), length.data() + length.size(), wanted);
    while (buffer_.size() < wanted && receive()) {
    }
    response.body = take(std::min(wanted, buffer_.size()));
    return response;
  }
  // The next piece of a chunked body; empty: the last one, or the end of the connection.
  std::string read_chunk() {
    const std::string line = read_until("\r\n");
    std::size_t size = 0;
    std::from_chars(line.data(), line.data() + line.size(), size, 16);
    while (buffer_.size() < size + 2 && receive()) {
    }
    const std::string piece = take(std::min(size + 2, buffer_.size()));
    return piece.substr(0, std::min(size, piece.size()));
  }

 private:
  bool receive() {
    char bytes[16384];
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    if (got > 0) buffer_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }
  std::string take(std::size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  Descriptor socket_;
  std::string buffer_;
};

// A request as text; `headers` are whole lines.
inline std::string request_text(std::string_view method, std::string_view target,
                                std::string_view headers = "", std::string_view body = "") {
  return fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}{}\r\n{}", method, target, headers,
                     body.empty() ? "" : fmt::format("Content-Length: {}\r\n", body.size()), body);
}

// A chat request's body: one user message, and `more` members.
inline std::string chat_body(std::string_view text, std::string_view more = "") {
  return fmt::format(R"({{"model": "org/m", "messages": [{{"role": "user", "content": "{}"}}]{}}})",
                     text, more);
}
inline std::string chat_text(std::string_view text, std::string_view more = "",
                             std::string_view headers = "") {
  return request_text("POST", "/v1/chat/completions", headers, chat_body(text, more));
}

}  // namespace exo::api
