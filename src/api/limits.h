// What clients may take of a node: bytes, times, connections. Source: api.md 1.11.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace exo::api {

struct Limits {
  std::uint32_t header_bytes = 64 << 10;
  std::uint64_t body_bytes = std::uint64_t{100} << 20;      // of one request
  std::uint64_t all_body_bytes = std::uint64_t{512} << 20;  // of all requests not yet answered
  std::size_t connections = 1024;
  // From a connection's start, or the end of its last reply, to the end of a request's headers.
  std::chrono::milliseconds header_time = std::chrono::seconds(60);
  std::chrono::milliseconds body_pause = std::chrono::seconds(60);  // without a byte of a body
  // A body may take `body_pause` plus the time that its bytes take at this rate, so that nobody
  // holds memory by sending a byte now and then.
  std::uint64_t body_bytes_per_second = 16 << 10;
  std::chrono::milliseconds write_time = std::chrono::seconds(60);  // for one write
  // A stream's headers wait this long for the runner's word, and then no comment is further apart.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
  // How long what a client still sends is read and dropped after the last reply.
  std::chrono::milliseconds linger = std::chrono::seconds(2);
  std::chrono::milliseconds shutdown = std::chrono::seconds(3);
};

}  // namespace exo::api
