// Strong id types: a command id cannot be passed where a runner id is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>

namespace exo {

template <typename Tag>
struct Id {
  std::string value;

  bool empty() const { return value.empty(); }
  friend auto operator<=>(const Id&, const Id&) = default;
};

using NodeId = Id<struct NodeTag>;          // 1..32 lower-case hex digits, the first not 0
using CommandId = Id<struct CommandTag>;    // UUID v4, one generation request
using TaskId = Id<struct TaskTag>;          // UUID v4, one task handed to a runner
using InstanceId = Id<struct InstanceTag>;  // UUID v4, one placed model
using RunnerId = Id<struct RunnerTag>;      // UUID v4, one shard of an instance
using ModelId = Id<struct ModelTag>;  // "org/name"; a model imported from a file is "local/name"

// A random UUID v4 from the system's generator, 36 characters.
std::string random_uuid();
// `count` random lower-case hex digits, or characters of [A-Za-z0-9].
std::string random_hex(std::size_t count);
std::string random_alphanumeric(std::size_t count);
// 64 random bits from the system's generator.
unsigned long long random_u64();

}  // namespace exo

template <typename Tag>
struct std::hash<exo::Id<Tag>> {
  std::size_t operator()(const exo::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.value);
  }
};
