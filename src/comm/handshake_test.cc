#include "comm/handshake.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

#include "comm/group_former.h"
#include "comm/seal.h"
#include "comm/test_groups.h"

namespace exo::comm {
namespace {

using std::chrono::milliseconds;

std::pair<Descriptor, Descriptor> socket_pair() {
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  return {Descriptor(sockets[0]), Descriptor(sockets[1])};
}

Identity identity_with(std::byte secret, bool sealed = true) {
  Identity identity{.group = "g", .sealed = sealed};
  identity.secret.fill(secret);
  return identity;
}

struct Outcome {
  Result<Connected> dialled, accepted;
};

Outcome shake(const Identity& dialer, const Identity& acceptor, bool dial_shared = false,
              bool accept_shared = false) {
  auto [one, other] = socket_pair();
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(1000);
  Outcome outcome{fail(ErrorCode::kInternal, "not run"), fail(ErrorCode::kInternal, "not run")};
  std::jthread thread([&, socket = std::move(other)]() mutable {
    outcome.accepted = accept(std::move(socket), acceptor, 0, 2, accept_shared, deadline);
  });
  outcome.dialled = dial(std::move(one), dialer, 1, 0, dial_shared, deadline);
  thread.join();
  return outcome;
}

TEST(Handshake, TheSameSecretConnects) {
  for (const bool shared : {false, true}) {
    const auto outcome =
        shake(identity_with(std::byte{7}), identity_with(std::byte{7}), shared, shared);
    EXPECT_TRUE(outcome.dialled) << to_string(outcome.dialled.error());
    EXPECT_TRUE(outcome.accepted) << to_string(outcome.accepted.error());
  }
}

TEST(Handshake, AnotherSecretOrGroupIsRefused) {
  const auto secret = shake(identity_with(std::byte{7}), identity_with(std::byte{8}));
  ASSERT_FALSE(secret.dialled);
  EXPECT_EQ(secret.dialled.error().code, ErrorCode::kPermission);
  Identity other = identity_with(std::byte{7});
  other.group = "another";
  EXPECT_FALSE(shake(other, identity_with(std::byte{7})).dialled);
}

TEST(Handshake, SealedAndPlainDoNotMix) {
  const auto outcome = shake(identity_with(std::byte{7}, false), identity_with(std::byte{7}, true));
  ASSERT_FALSE(outcome.dialled);
  EXPECT_EQ(outcome.dialled.error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(outcome.dialled.error().message.contains("--plain-tensors"));
}

TEST(Handshake, AnotherTransportIsRefused) {
  EXPECT_FALSE(
      shake(identity_with(std::byte{7}), identity_with(std::byte{7}), false, true).dialled);
}

TEST(Handshake, SilenceEndsAtTheDeadline) {
  auto [one, other] = socket_pair();
  const auto result = accept(std::move(one), identity_with(std::byte{7}), 0, 2, false,
                             std::chrono::steady_clock::now() + milliseconds(50));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kTimedOut);
}

TEST(Handshake, GarbageIsRefused) {
  auto [one, other] = socket_pair();
  const std::string garbage(200, 'x');
  ASSERT_EQ(::send(other.get(), garbage.data(), garbage.size(), 0), 200);
  const auto result = accept(std::move(one), identity_with(std::byte{7}), 0, 2, false,
                             std::chrono::steady_clock::now() + milliseconds(500));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kPermission);
}

TEST(Seal, OpensWhatWasSealedAndNothingElse) {
  Key key;
  key.fill(std::byte{3});
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    Sealer sealer(key, cipher), opener(key, cipher);
    const std::string text = "tensors";
    const auto plain = std::as_bytes(std::span(text));
    const std::byte header[4] = {std::byte{1}};
    std::vector<std::byte> sealed(plain.size() + kTagBytes), opened(plain.size());
    for (int record = 0; record < 3; ++record) {
      sealer.seal(header, plain, sealed.data());
      ASSERT_TRUE(opener.open(header, sealed, opened.data()));
      EXPECT_TRUE(std::ranges::equal(opened, plain));
    }
    sealer.seal(header, plain, sealed.data());
    const auto replayed = sealed;
    ASSERT_TRUE(opener.open(header, sealed, opened.data()));
    EXPECT_FALSE(opener.open(header, replayed, opened.data()));  // its number has passed
    Sealer again(key, cipher), reader(key, cipher);
    again.seal(header, plain, sealed.data());
    sealed[2] ^= std::byte{1};
    EXPECT_FALSE(reader.open(header, sealed, opened.data()));
    Sealer third(key, cipher), fourth(key, cipher);
    third.seal(header, plain, sealed.data());
    const std::byte other_header[4] = {std::byte{2}};
    EXPECT_FALSE(fourth.open(other_header, sealed, opened.data()));
  }
}

// RFC 5869, test case 1, first 32 bytes; RFC 4231, test case 2.
TEST(Seal, KeysAndCodesAreThoseOfTheirStandards) {
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> result;
    for (const int value : values) result.push_back(std::byte(value));
    return result;
  };
  std::vector<std::byte> secret(22, std::byte{0x0b});
  const auto salt = bytes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Key key = derive_key(secret, salt, "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9");
  EXPECT_EQ(key[0], std::byte{0x3c});
  EXPECT_EQ(key[1], std::byte{0xb2});
  EXPECT_EQ(key[31], std::byte{0xbf});
}

TEST(FormGroup, NamesTheRankThatIsMissing) {
  auto listener = GroupListener::open("127.0.0.1", {}).value();
  GroupOptions options{.identity = identity_with(std::byte{7}),
                       .rank = 0,
                       .members = std::vector<Member>(3),
                       .timeout = milliseconds(200)};
  const auto group = form_group(std::move(listener), options);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, ErrorCode::kTimedOut);
  EXPECT_EQ(group.error().subject, "rank 1");
}

TEST(FormGroup, SurvivesStrangers) {
  auto first = GroupListener::open("127.0.0.1", {}).value();
  auto second = GroupListener::open("127.0.0.1", {}).value();
  GroupOptions options{.identity = identity_with(std::byte{7}), .timeout = milliseconds(10'000)};
  for (const auto* listener : {&first, &second})
    options.members.push_back({.address = "127.0.0.1", .port = listener->port()});
  const auto dial_garbage = [&](std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  };
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 50; ++i) strangers.push_back(dial_garbage(first.port()));
  const std::string noise(1000, 'z');
  for (const Descriptor& stranger : strangers)
    ::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  GroupOptions other = options;
  other.rank = 1;
  const std::jthread thread([&, listener = std::move(second)]() mutable {
    auto group = form_group(std::move(listener), other);
    ASSERT_TRUE(group) << to_string(group.error());
    EXPECT_TRUE(group->barrier());
  });
  auto group = form_group(std::move(first), options);
  ASSERT_TRUE(group) << to_string(group.error());
  EXPECT_TRUE(group->barrier());
}

TEST(FormGroup, ASocketIsForItsOwnerAndGoesAway) {
  const SocketDirectory directory;
  const auto private_directory = directory.path() / "groups";
  std::filesystem::path socket;
  {
    const auto listener = GroupListener::open("127.0.0.1", private_directory).value();
    socket = listener.socket();
    EXPECT_TRUE(std::filesystem::exists(socket));
    EXPECT_EQ(std::filesystem::status(private_directory).permissions(),
              std::filesystem::perms::owner_all);
  }
  EXPECT_FALSE(std::filesystem::exists(socket));
  EXPECT_EQ(GroupListener::open("no address", {}).error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace exo::comm
