// Bytes from outside: little-endian numbers by memcpy, and sizes that cannot overflow.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace exo {

static_assert(std::endian::native == std::endian::little,
              "exo reads files in place and needs a little-endian machine");

// The T at `bytes`, which may be unaligned. The caller has checked that sizeof(T) bytes are there.
template <typename T>
  requires std::is_trivially_copyable_v<T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T>
  requires std::is_trivially_copyable_v<T>
void store(std::byte* bytes, const T& value) {
  std::memcpy(bytes, &value, sizeof(T));
}

// The T at `offset`, or nothing if it would end beyond `bytes`.
template <typename T>
std::optional<T> read_at(std::span<const std::byte> bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  return load<T>(bytes.data() + offset);
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// a + b and a · b of sizes that came from outside, or nothing on overflow.
template <std::unsigned_integral T>
std::optional<T> checked_add(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::unsigned_integral T>
std::optional<T> checked_mul(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// `value` rounded up to a multiple of `step` (> 0).
template <std::unsigned_integral T>
constexpr T round_up(T value, T step) {
  return (value + step - 1) / step * step;
}

template <std::unsigned_integral T>
constexpr T divide_up(T value, T step) {
  return (value + step - 1) / step;
}

}  // namespace exo
