#include "api/reply.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/scripted_inference.h"

namespace exo::api {
namespace {

class ReplyTest : public testing::Test {
 protected:
  ReplyTest() {
    inference_.known = {model_named("a/runs", /*running=*/true),
                        model_named("b/rests", /*running=*/false)};
  }
  Reply get(std::string target, std::string anthropic_version = "") {
    const auto routed = router_.route({.method = "GET",
                                       .target = std::move(target),
                                       .anthropic_version = std::move(anthropic_version)});
    return routed ? reply_to(*routed, inference_, "req_1") : error_reply(routed.error());
  }
  std::vector<std::string> ids(std::string target) {
    std::vector<std::string> ids;
    const Json body = Json::parse(get(std::move(target)).body);
    for (const Json& model : body["data"]) ids.push_back(model["id"]);
    return ids;
  }

  ScriptedInference inference_;
  Router router_{{}};
};

TEST_F(ReplyTest, ModelsAreChosenByTheirStatus) {
  using Ids = std::vector<std::string>;
  for (const char* path : {"/v1/models", "/models", "/v1/models/?status=", "/models?beta=true",
                           "/v1/models?status=downloaded"}) {
    EXPECT_EQ(ids(path), (Ids{"a/runs", "b/rests"})) << path;
  }
  EXPECT_EQ(ids("/v1/models?status=running"), Ids{"a/runs"});
  EXPECT_EQ(ids("/models?beta=true&status=%72unning"), Ids{"a/runs"});
  const Reply unknown = get("/v1/models?status=sleeping");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(Json::parse(unknown.body)["error"]["param"], "status");
}

TEST_F(ReplyTest, AModelIsFoundByItsIdHoweverItIsEncoded) {
  for (const char* path : {"/v1/models/b/rests", "/v1/models/b%2Frests", "/v1/models/b%2frests/"}) {
    const Reply reply = get(path);
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_EQ(Json::parse(reply.body)["id"], "b/rests");
    EXPECT_EQ(Json::parse(reply.body)["running"], false);
  }
}

TEST_F(ReplyTest, AnUnknownModelIsNotFoundInTheClientsOwnForm) {
  for (const char* path : {"/v1/models/nobody", "/v1/models/m"}) {
    const Reply reply = get(path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_EQ(Json::parse(reply.body)["error"]["code"], "model_not_found");
    const Reply claude = get(path, "2023-06-01");
    EXPECT_EQ(claude.status, 404);
    const Json body = Json::parse(claude.body);
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], "not_found_error");
    EXPECT_EQ(body["request_id"], "req_1");
  }
}

TEST_F(ReplyTest, HealthTellsWhatIsWrong) {
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/v1/health").status, 200);
  inference_.problem = "a/runs: crashes";
  const Reply reply = get("/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(Json::parse(reply.body)["reason"], "a/runs: crashes");
}

}  // namespace
}  // namespace exo::api
