#include "engine/families/rope_config.h"

#include <cmath>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/families/config_reader.h"

namespace exo::engine::families {
namespace {

constexpr NumberRange kFactors = {.low = 1e-6, .high = 1e6};
constexpr NumberRange kThetas = {.low = 1e-3, .high = 1e30};

Result<RopeScaling> read_llama3(const ConfigReader& scaling) {
  EXO_TRY(const double factor, scaling.number("factor", kFactors));
  EXO_TRY(const double low, scaling.number("low_freq_factor", kFactors, 1));
  EXO_TRY(const double high, scaling.number("high_freq_factor", kFactors, 4));
  EXO_TRY(const double original,
          scaling.number("original_max_position_embeddings", {.low = 1, .high = 1e9}, 8192));
  if (!(high > low)) return scaling.wrong("high_freq_factor", "must be above low_freq_factor");
  return Llama3Rope{.factor = static_cast<float>(factor),
                    .low_freq_factor = static_cast<float>(low),
                    .high_freq_factor = static_cast<float>(high),
                    .original_context = static_cast<float>(original)};
}

Result<RopeScaling> read_divisors(const Json& object, const ConfigReader& scaling,
                                  std::size_t count) {
  const auto found = object.find("divisors");
  if (found == object.end() || !found->is_array() || found->size() != count)
    return scaling.wrong("divisors", fmt::format("must be a list of {} numbers", count));
  DivisorRope rope;
  for (const Json& value : *found) {
    const float divisor = value.is_number() ? value.get<float>() : 0;
    if (!(divisor > 0) || !std::isfinite(divisor))
      return scaling.wrong("divisors", "must hold positive numbers only");
    rope.divisors.push_back(divisor);
  }
  return rope;
}

Result<RopeScaling> read_scaling(const Json& object, std::string_view key, std::size_t rotated) {
  const ConfigReader scaling(object, fmt::format("{}.", key));
  EXO_TRY(const std::string old_name, scaling.text("type", "default"));
  EXO_TRY(const std::string type, scaling.text("rope_type", old_name));
  if (type == "default" || type == "mrope") return DefaultRope{};
  if (type == "linear") {
    EXO_TRY(const double factor, scaling.number("factor", kFactors));
    return LinearRope{.factor = factor};
  }
  if (type == "llama3") return read_llama3(scaling);
  if (type == "frequency_divisors") return read_divisors(object, scaling, rotated / 2);
  return fail(ErrorCode::kUnsupported,
              fmt::format("rope scaling of type {} is not supported", in_quotes(type)),
              std::string(key));
}

}  // namespace

Result<RopeSpec> read_rope(const Json& config, std::size_t rotated, double default_theta) {
  const ConfigReader reader(config);
  // Newer files keep theta and scaling together under rope_parameters.
  const std::string_view key = reader.has("rope_scaling") || !reader.has("rope_parameters")
                                   ? "rope_scaling"
                                   : "rope_parameters";
  RopeSpec rope{.rotated = rotated};
  EXO_TRY(double theta, reader.number("rope_theta", kThetas, default_theta));
  if (reader.has(key)) {
    const Json& object = config[std::string(key)];
    if (!object.is_object()) return reader.wrong(key, "must be an object");
    EXO_TRY(theta,
            ConfigReader(object, fmt::format("{}.", key)).number("rope_theta", kThetas, theta));
    EXO_TRY(rope.scaling, read_scaling(object, key, rotated));
  }
  rope.base = static_cast<float>(theta);
  EXO_TRY(const bool traditional, reader.flag("rope_traditional", false));
  if (traditional) rope.pairs = kernels::RopePairs::kInterleaved;
  return rope;
}

}  // namespace exo::engine::families
