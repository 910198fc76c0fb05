#include "api/router.h"

#include <gtest/gtest.h>

namespace exo::api {
namespace {

int status(const Router& router, const RequestHead& head) {
  const auto routed = router.route(head);
  return routed ? 200 : routed.error().status;
}

TEST(Router, FindsPathsMethodsAndParameters) {
  const Router router{{}};
  EXPECT_EQ(router.route({.method = "POST", .target = "/v1/chat/completions/?beta=true"})->route,
            Route::kChatCompletions);
  EXPECT_EQ(router.route({.method = "GET", .target = "/v1/models/org%2Fname"})->parameter,
            "org/name");
  EXPECT_EQ(router.route({.method = "GET", .target = "/v1/models/org/name"})->parameter,
            "org/name");
  EXPECT_EQ(router.route({.method = "HEAD", .target = "/health"})->route, Route::kHealth);
  EXPECT_EQ(status(router, {.method = "GET", .target = "/v1/models/%zz"}), 400);
  EXPECT_EQ(status(router, {.method = "GET", .target = "/nope"}), 404);
  EXPECT_EQ(status(router, {.method = "GET", .target = "/v1/chat/completions"}), 405);
  EXPECT_EQ(Router::allowed_methods("/v1/chat/completions"), "POST, OPTIONS");
}

TEST(Router, ForeignOriginsMayOnlyLook) {
  const Router router{{.cors = {"https://friend"}, .hosts = {"127.0.0.1"}}};
  const auto head = [](std::string method, std::string origin,
                       std::string host = "127.0.0.1:52415") {
    return RequestHead{.method = std::move(method),
                       .target = "/v1/models",
                       .host = std::move(host),
                       .origin = std::move(origin)};
  };
  EXPECT_EQ(status(router, head("POST", "https://evil")), 403);
  EXPECT_EQ(status(router, head("GET", "https://evil")), 200);
  EXPECT_TRUE(router.cors_headers(head("GET", "https://evil")).empty());
  EXPECT_FALSE(router.cors_headers(head("GET", "https://friend")).empty());
  EXPECT_FALSE(router.cors_headers(head("GET", "http://127.0.0.1:52415")).empty());
  EXPECT_TRUE(router.cors_headers(head("GET", "http://rebound:52415", "rebound:52415")).empty());
}

TEST(Router, AsksForAKeyWhereThereIsOne) {
  const Router router{{.api_keys = {"secret"}}};
  EXPECT_EQ(status(router, {.method = "GET", .target = "/v1/models"}), 401);
  EXPECT_EQ(
      status(router, {.method = "GET", .target = "/v1/models", .authorization = "Bearer wrong"}),
      401);
  EXPECT_EQ(
      status(router, {.method = "GET", .target = "/v1/models", .authorization = "Bearer secret"}),
      200);
  EXPECT_EQ(status(router, {.method = "GET", .target = "/v1/models", .api_key = "secret"}), 200);
  EXPECT_EQ(status(router, {.method = "GET", .target = "/"}), 200);
}

}  // namespace
}  // namespace exo::api
