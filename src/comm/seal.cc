#include "comm/seal.h"

#include <cstring>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "core/check.h"

namespace exo::comm {
namespace {

constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 24;
constexpr std::size_t kNonceBytes = 12;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct FreeKey {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
int length(std::size_t bytes) { return static_cast<int>(bytes); }

}  // namespace

bool has_fast_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRYPTO)
  return true;
#else
  return false;
#endif
}

Key derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt,
               std::string_view purpose) {
  Key key;
  std::size_t size = key.size();
  const std::unique_ptr<EVP_PKEY_CTX, FreeKey> context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  const auto info = std::as_bytes(std::span(purpose));
  EXO_CHECK(context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
            EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
            (salt.empty() ||
             EVP_PKEY_CTX_set1_hkdf_salt(context.get(), raw(salt), length(salt.size())) == 1) &&
            EVP_PKEY_CTX_set1_hkdf_key(context.get(), raw(secret), length(secret.size())) == 1 &&
            EVP_PKEY_CTX_add1_hkdf_info(context.get(), raw(info), length(info.size())) == 1 &&
            EVP_PKEY_derive(context.get(), raw(key.data()), &size) == 1);
  return key;
}

Key authenticate(const Key& key, std::initializer_list<std::span<const std::byte>> parts) {
  Key mac;
  std::string text;
  for (const auto part : parts) text += as_text(part);
  unsigned int size = 0;
  const auto bytes = std::as_bytes(std::span(text));
  EXO_CHECK(HMAC(EVP_sha256(), key.data(), length(key.size()), raw(bytes), bytes.size(),
                 raw(mac.data()), &size) != nullptr &&
            size == mac.size());
  return mac;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::byte> bytes) {
  EXO_CHECK(RAND_bytes(raw(bytes.data()), length(bytes.size())) == 1);
}

struct Sealer::Context {
  std::unique_ptr<EVP_CIPHER_CTX, FreeCipher> cipher{EVP_CIPHER_CTX_new()};
  bool keyed = false;
};

Sealer::Sealer(const Key& key, Cipher cipher)
    : context_(std::make_unique<Context>()), key_(key), cipher_(cipher) {
  EXO_CHECK(context_->cipher != nullptr);
}
Sealer::Sealer(Sealer&&) noexcept = default;
Sealer::~Sealer() { OPENSSL_cleanse(key_.data(), key_.size()); }

// Sets nonce and, where it is new, key.
void Sealer::begin_record(bool seals) {
  if (record_ > 0 && record_ % kRecordsPerKey == 0) {
    key_ = derive_key(key_, {}, "exo next key");
    context_->keyed = false;
  }
  unsigned char nonce[kNonceBytes] = {};
  std::memcpy(nonce, &record_, sizeof record_);
  ++record_;
  EVP_CIPHER_CTX* context = context_->cipher.get();
  if (!context_->keyed) {
    const EVP_CIPHER* cipher =
        cipher_ == Cipher::kAes256Gcm ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
    EXO_CHECK(EVP_CipherInit_ex(context, cipher, nullptr, raw(key_.data()), nullptr, seals) == 1);
    context_->keyed = true;
  }
  EXO_CHECK(EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce, seals) == 1);
}

void Sealer::seal(std::span<const std::byte> header, std::span<const std::byte> plain,
                  std::byte* sealed) {
  EVP_CIPHER_CTX* context = context_->cipher.get();
  begin_record(/*seals=*/true);
  int size = 0;
  EXO_CHECK(EVP_EncryptUpdate(context, nullptr, &size, raw(header), length(header.size())) == 1 &&
            EVP_EncryptUpdate(context, raw(sealed), &size, raw(plain), length(plain.size())) == 1 &&
            EVP_EncryptFinal_ex(context, raw(sealed) + size, &size) == 1 &&
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, length(kTagBytes),
                                sealed + plain.size()) == 1);
}

Result<void> Sealer::open(std::span<const std::byte> header, std::span<const std::byte> sealed,
                          std::byte* plain) {
  EVP_CIPHER_CTX* context = context_->cipher.get();
  begin_record(/*seals=*/false);
  const std::size_t size_bytes = sealed.size() - kTagBytes;
  std::byte tag[kTagBytes];
  std::memcpy(tag, sealed.data() + size_bytes, kTagBytes);
  int size = 0;
  const bool opened =
      EVP_DecryptUpdate(context, nullptr, &size, raw(header), length(header.size())) == 1 &&
      EVP_DecryptUpdate(context, raw(plain), &size, raw(sealed), length(size_bytes)) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, length(kTagBytes), tag) == 1 &&
      EVP_DecryptFinal_ex(context, raw(plain) + size, &size) == 1;
  if (!opened) return fail(ErrorCode::kInternal, "a record was damaged or forged on its way");
  return {};
}

}  // namespace exo::comm
