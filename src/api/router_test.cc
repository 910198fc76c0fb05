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

TEST(Router, ChatHasItsAliases) {
  const Router router{{}};
  for (const char* path :
       {"/v1/chat/completions", "/chat/completions", "/ollama/v1/chat/completions"}) {
    EXPECT_EQ(router.route({.method = "POST", .target = path})->route, Route::kChatCompletions)
        << path;
  }
}

TEST(Router, TheStatusOfModelsIsReadFromTheQuery) {
  const Router router{{}};
  for (const auto& [target, status] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/v1/models", ""},
           {"/v1/models?status=running", "running"},
           {"/v1/models?a=b&status=run%6Eing&status=x#status=y", "running"},
           {"/v1/models?status", ""},
           {"/v1/models?xstatus=running", ""},
           {"/v1/models#?status=running", ""}}) {
    EXPECT_EQ(router.route({.method = "GET", .target = target})->parameter, status) << target;
  }
  EXPECT_EQ(status(router, {.method = "GET", .target = "/v1/models?status=%f"}), 400);
}

TEST(Router, AnOriginIsTheNodesOwnByNameOrAddress) {
  const Router router{{.hosts = {"127.0.0.1", "::1", "node"}}};
  const auto is_own = [&](const std::string& host, const std::string& local_address = "") {
    return !router
                .cors_headers({.method = "GET",
                               .host = host,
                               .origin = "http://" + host,
                               .local_address = local_address})
                .empty();
  };
  EXPECT_TRUE(is_own("localhost:52415"));
  EXPECT_TRUE(is_own("[::1]:52415"));
  EXPECT_TRUE(is_own("Node"));
  EXPECT_TRUE(is_own("192.0.2.7:52415", "192.0.2.7"));
  EXPECT_FALSE(is_own("192.0.2.7:52415", "192.0.2.8"));
  EXPECT_FALSE(is_own("", "")) << "no host is no address";
  EXPECT_FALSE(is_own("localhost.evil"));
}

TEST(Router, TheSchemeOfAKeyMayBeInAnyCase) {
  const Router router{{.api_keys = {"secret"}}};
  const auto with = [&](const char* authorization) {
    return status(router,
                  {.method = "GET", .target = "/v1/models", .authorization = authorization});
  };
  EXPECT_EQ(with("bearer secret"), 200);
  EXPECT_EQ(with("BEARER secret"), 200);
  EXPECT_EQ(with("Bearer SECRET"), 401);
  EXPECT_EQ(with("Bearersecret"), 401);
  EXPECT_EQ(with("secret"), 401);
}

TEST(ReadOrigin, FillsInWhatIsThere) {
  RequestHead head;
  read_origin(
      "GET / HTTP/1.1\r\nHOST:  node \r\norigin: http://node\r\nOrigin: http://second\r\n\r\n"
      "Host: body",
      head);
  EXPECT_EQ(head.host, "node");
  EXPECT_EQ(head.origin, "http://node");
  read_origin("Host: other\r\n", head);
  EXPECT_EQ(head.host, "node") << "what is known stays";
  for (const char* hostile :
       {"", "\n", "\r\n\r\n", ":", "\n:\n:", "GET", "\x16\x03\x01", "\nOrigin:"}) {
    RequestHead empty;
    read_origin(hostile, empty);
    EXPECT_EQ(empty.origin, "") << hostile;
  }
}

}  // namespace
}  // namespace exo::api
