#include "core/id.h"

#include <array>
#include <string_view>
#include <sys/random.h>

#include "core/check.h"

namespace exo {
namespace {

template <std::size_t N>
std::array<unsigned char, N> random_bytes() {
  std::array<unsigned char, N> bytes;
  EXO_CHECK(getrandom(bytes.data(), N, 0) ==
            static_cast<ssize_t>(N));  // ≤ 256 bytes never come short
  return bytes;
}

std::string random_text(std::size_t count, std::string_view alphabet) {
  // Bytes at or above the largest multiple of the alphabet's size are drawn again, so that all are
  // equally likely.
  const std::size_t limit = 256 / alphabet.size() * alphabet.size();
  std::string text;
  while (text.size() < count) {
    for (const unsigned char byte : random_bytes<64>()) {
      if (byte < limit && text.size() < count) text += alphabet[byte % alphabet.size()];
    }
  }
  return text;
}

}  // namespace

std::string random_hex(std::size_t count) { return random_text(count, "0123456789abcdef"); }

std::string random_alphanumeric(std::size_t count) {
  return random_text(count, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
}

std::string random_uuid() {
  std::string text = random_hex(36);
  for (const std::size_t dash : {8, 13, 18, 23}) text[dash] = '-';
  text[14] = '4';                                               // version: random
  text[19] = "89ab"[static_cast<unsigned char>(text[19]) % 4];  // variant: RFC 4122
  return text;
}

unsigned long long random_u64() {
  const auto bytes = random_bytes<8>();
  unsigned long long value = 0;
  for (const unsigned char byte : bytes) value = value << 8 | byte;
  return value;
}

}  // namespace exo
