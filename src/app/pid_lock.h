// One node per home: an advisory lock on <cache>/exo.pid, and beside it where the node listens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>

#include "core/paths.h"
#include "core/result.h"

namespace exo::app {

// Where a running node of this home is reached.
struct NodeRecord {
  pid_t pid = 0;
  std::string host;  // an address without brackets
  std::uint16_t port = 0;

  std::string url() const;  // "http://127.0.0.1:52415", "http://[::1]:52415"
  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};

// Held for a node's life; both files are removed at its end.
class PidLock {
 public:
  // Creates the directory if needed. Errors: kBusy: another process holds it (`subject`: its pid);
  // kPermission, kIo.
  static Result<PidLock> take(const Paths& paths);

  PidLock(PidLock&& other) noexcept;
  PidLock& operator=(PidLock&& other) noexcept;
  ~PidLock();

  // Tells other programs of this home where the node listens. Errors: kPermission, kNoSpace, kIo.
  Result<void> publish(const std::string& host, std::uint16_t port) const;

 private:
  PidLock(int fd, std::filesystem::path pid_file, std::filesystem::path record_file);
  int fd_ = -1;
  std::filesystem::path pid_file_, record_file_;
};

// The node that runs on this home and has published where it listens; nothing if there is none.
std::optional<NodeRecord> find_node(const Paths& paths);

}  // namespace exo::app
