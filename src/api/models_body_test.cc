#include "api/models_body.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/scripted_inference.h"

namespace exo::api {
namespace {

TEST(ModelsBody, AModelIsValidForTheClientsOfBothFamilies) {
  ModelState state = model_named("org/name");
  state.model.card.storage_bytes = (std::uint64_t{695} << 20) + (1 << 19);
  state.model.card.context_length = 32768;
  state.model.card.base_model = "Llama 3.2 1B";
  const Json body = model_body(state);
  EXPECT_EQ(body["id"], "org/name");
  EXPECT_EQ(body["object"], "model");
  EXPECT_EQ(body["owned_by"], "exo");
  EXPECT_EQ(body["name"], "name");
  EXPECT_EQ(body["created"], 1700000000);
  EXPECT_EQ(body["created_at"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(body["storage_size_megabytes"], 696) << "rounded";
  EXPECT_EQ(body["context_length"], 32768);
  EXPECT_EQ(body["type"], "model");
  EXPECT_EQ(body["display_name"], "Llama 3.2 1B");
  EXPECT_EQ(model_body(model_named("org/name"))["display_name"], "name");
}

TEST(ModelsBody, AListTellsItsEnds) {
  const Json body = models_body({model_named("a/a"), model_named("b/b")});
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["data"].size(), 2U);
  EXPECT_EQ(body["first_id"], "a/a");
  EXPECT_EQ(body["last_id"], "b/b");
  EXPECT_EQ(body["has_more"], false);
  const Json empty = models_body({});
  EXPECT_EQ(empty["data"], Json::array());
  EXPECT_EQ(empty["first_id"], nullptr);
}

TEST(ModelsBody, ImageModelsAreHidden) {
  ModelState image = model_named("org/image"), both = model_named("org/both");
  image.model.card.tasks = {"TextToImage", "ImageToImage"};
  both.model.card.tasks = {"TextGeneration", "TextToImage"};
  const Json body = models_body({image, both});
  ASSERT_EQ(body["data"].size(), 1U);
  EXPECT_EQ(body["first_id"], "org/both");
}

}  // namespace
}  // namespace exo::api
