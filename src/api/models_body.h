// GET /v1/models and /v1/models/{id}. Source: api.md 10.1, 10.2.
#pragma once

#include <vector>

#include "api/inference.h"
#include "core/json.h"

namespace exo::api {

Json model_body(const ModelState& state);
Json models_body(const std::vector<ModelState>& models);

}  // namespace exo::api
