// How ranks that know each other's addresses become a group: each dials the ranks below its own and
// is dialled by those above.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/handshake.h"
#include "comm/process_group.h"
#include "core/descriptor.h"
#include "core/result.h"

namespace exo::comm {

// Where a rank can be reached before its group exists: the address that its node tells the others.
class GroupListener {
 public:
  // Listens on a free TCP port of `address` (numeric IPv4 or IPv6; "::" is all of both) and, unless
  // `directory` is empty, on a Unix socket in it, for ranks of the same machine. The directory is
  // made, for its owner only. Errors: kInvalidInput: no address; kPermission, kIo.
  static Result<GroupListener> open(const std::string& address,
                                    const std::filesystem::path& directory);
  GroupListener(GroupListener&& other) noexcept
      : tcp_(std::move(other.tcp_)),
        unix_(std::move(other.unix_)),
        port_(other.port_),
        socket_path_(std::exchange(other.socket_path_, {})) {}
  GroupListener& operator=(GroupListener&&) = delete;
  ~GroupListener();  // removes the Unix socket

  std::uint16_t port() const { return port_; }
  const std::filesystem::path& socket() const { return socket_path_; }  // empty: none

  int tcp() const { return tcp_.get(); }
  int unix() const { return unix_.get(); }  // -1: none

 private:
  GroupListener(Descriptor tcp, std::uint16_t port) : tcp_(std::move(tcp)), port_(port) {}

  Descriptor tcp_;
  Descriptor unix_{-1};
  std::uint16_t port_ = 0;
  std::filesystem::path socket_path_;
};

struct Member {
  std::string address = {};  // numeric
  std::uint16_t port = 0;
  std::filesystem::path socket = {};  // shared memory is used where it is not empty
};

struct GroupOptions {
  Identity identity = {};
  std::size_t rank = 0;
  std::vector<Member> members = {};  // by rank; the own one is not looked at
  std::chrono::milliseconds timeout{60'000};
};

// Connections of strangers are dropped, and counted in the log. Errors: kTimedOut: `subject` is the
// rank that is missing; kPermission, kInvalidInput: as dial(); kIo.
Result<ProcessGroup> form_group(GroupListener listener, const GroupOptions& options);

}  // namespace exo::comm
