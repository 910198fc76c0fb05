// The writing side of one connection, and its end. Includes Asio and Beast, so only the files of a
// session use it.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "api/limits.h"
#include "api/reply.h"
#include "api/router.h"

namespace exo::api {

inline constexpr auto kAsTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

// What every reply to one request has in common.
struct Envelope {
  std::string request_id = {};
  Headers cors = {};
  unsigned version = 11;  // of HTTP: 10 or 11
  bool keep_alive = true;
  bool is_head = false;
};

class Connection {
 public:
  using Stream = boost::beast::tcp_stream;

  // `limits` must outlive it.
  Connection(boost::asio::ip::tcp::socket socket, const Limits& limits);

  Stream& stream() { return *stream_; }
  std::shared_ptr<Stream> share_stream() const { return stream_; }

  // False: the client has gone, or did not read for Limits::write_time.
  boost::asio::awaitable<bool> send_text(std::string text);
  // True: the connection stays open.
  boost::asio::awaitable<bool> send(Reply reply, const Envelope& envelope);
  // Sends no more, and drops what the client still sends: a socket that is closed over unread bytes
  // takes its last reply along.
  boost::asio::awaitable<void> linger();

 private:
  std::shared_ptr<Stream> stream_;  // shared with the watch over a generation's client
  const Limits& limits_;
};

}  // namespace exo::api
