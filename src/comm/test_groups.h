// Process groups for tests: ranks that are threads of this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <thread>
#include <vector>

#include "comm/group_former.h"

namespace exo::comm {

enum class TestTransport : std::uint8_t { kSharedMemory, kSealedTcp, kPlainTcp };

inline std::string to_string(TestTransport transport) {
  return transport == TestTransport::kSharedMemory ? "shared memory"
         : transport == TestTransport::kSealedTcp  ? "sealed TCP"
                                                   : "plain TCP";
}

// A directory for the sockets of a group, with a short path.
class SocketDirectory {
 public:
  SocketDirectory() {
    std::string name = "/tmp/exo-comm-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~SocketDirectory() { std::filesystem::remove_all(path_); }
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Runs `work` as every rank of a group of `size` at once.
inline void run_ranks(std::size_t size, TestTransport transport,
                      const std::function<void(ProcessGroup&)>& work) {
  const SocketDirectory directory;
  std::vector<GroupListener> listeners;
  GroupOptions options{
      .identity = {.group = "test", .sealed = transport != TestTransport::kPlainTcp},
      .timeout = std::chrono::milliseconds(20'000)};
  fill_random(options.identity.secret);
  for (std::size_t rank = 0; rank < size; ++rank) {
    auto listener = GroupListener::open("127.0.0.1", directory.path());
    ASSERT_TRUE(listener) << to_string(listener.error());
    options.members.push_back({.address = "127.0.0.1", .port = listener->port()});
    if (transport == TestTransport::kSharedMemory)
      options.members.back().socket = listener->socket();
    listeners.push_back(std::move(*listener));
  }
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank, own = options]() mutable {
      own.rank = rank;
      auto group = form_group(std::move(listeners[rank]), own);
      ASSERT_TRUE(group) << to_string(group.error());
      work(*group);
    });
  }
}

}  // namespace exo::comm
