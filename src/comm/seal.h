// Authenticated encryption of one direction of a channel, and the keys for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

#include "core/result.h"

namespace exo::comm {

inline constexpr std::size_t kKeyBytes = 32, kTagBytes = 16;
using Key = std::array<std::byte, kKeyBytes>;

enum class Cipher : std::uint8_t { kAes256Gcm, kChaCha20Poly1305 };
// AES where this processor has instructions for it.
bool has_fast_aes();

// HKDF-SHA256 (RFC 5869) of `secret`.
Key derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt,
               std::string_view purpose);
// HMAC-SHA256 (RFC 2104) of the concatenated parts.
Key authenticate(const Key& key, std::initializer_list<std::span<const std::byte>> parts);
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);
void fill_random(std::span<std::byte> bytes);

// Seals or opens records one after another; the number of a record is its nonce, so that none can
// be repeated, left out or moved. After 2^24 records the key is replaced by one derived from it,
// which keeps both ciphers far inside their limits. One object serves one direction at one end.
class Sealer {
 public:
  Sealer(const Key& key, Cipher cipher);
  Sealer(Sealer&&) noexcept;
  ~Sealer();

  // Writes plain.size() bytes and the tag. `header` is authenticated beside them.
  void seal(std::span<const std::byte> header, std::span<const std::byte> plain, std::byte* sealed);
  // The inverse; `sealed` ends with the tag. Errors: kInternal: it was not sealed by the other
  // side.
  Result<void> open(std::span<const std::byte> header, std::span<const std::byte> sealed,
                    std::byte* plain);

 private:
  void begin_record(bool seals);

  struct Context;
  std::unique_ptr<Context> context_;
  Key key_;
  Cipher cipher_;
  std::uint64_t record_ = 0;
};

}  // namespace exo::comm
