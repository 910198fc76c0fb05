// The key-value part of a GGUF file, checked once, read on demand. Source: gguf.md 1.1, 1.4, 1.5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace exo::models {

// Borrows the file's bytes, which must outlive it. Look-ups of another type than the key holds give
// nothing.
class GgufMetadata {
 public:
  // Reads `count` pairs that begin at `*offset` of `file` and moves `*offset` behind them. Strings
  // and array bounds are checked, keys are unique. Errors: kInvalidInput; `subject` is the key
  // where one is known.
  static Result<GgufMetadata> read(std::span<const std::byte> file, std::uint64_t count,
                                   std::size_t* offset);

  bool has(std::string_view key) const;
  std::optional<std::string_view> string(
      std::string_view key) const;  // bytes as in the file, perhaps no UTF-8
  std::optional<std::int64_t> integer(std::string_view key) const;  // any integer type that fits
  std::optional<double> number(std::string_view key) const;         // any integer or float type
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(
      std::string_view key) const;  // any integer or bool type
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::uint64_t> array_size(std::string_view key) const;

  std::vector<std::string> keys() const;

 private:
  struct Value {
    std::uint32_t type = 0;     // 0..12; 9 is an array
    std::uint32_t element = 0;  // of an array
    std::uint64_t count = 1;
    std::size_t offset = 0;  // of the first payload byte
  };
  const Value* find(std::string_view key) const;

  std::span<const std::byte> file_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace exo::models
