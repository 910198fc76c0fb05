#include "engine/families/families.h"

#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/families/config_reader.h"

namespace exo::engine::families {
namespace {

using Describe = Result<DecoderSpec>(const Json& config);
constexpr std::array<std::pair<std::string_view, Describe*>, 5> kFamilies = {{
    {"llama", describe_llama},
    {"mistral", describe_llama},
    {"iquestcoder", describe_llama},
    {"gemma3_text", describe_gemma3},
    {"gemma3", describe_gemma3},
}};

}  // namespace

Result<DecoderSpec> describe(const Json& config) {
  if (!config.is_object()) return fail(ErrorCode::kInvalidInput, "config.json is not an object");
  if (config.contains("model_file"))
    return fail(ErrorCode::kUnsupported,
                "the model brings its own code, which is never run (model_file)", "model_file");
  EXO_TRY(const std::string type, ConfigReader(config).text("model_type"));
  for (const auto& [name, describe_family] : kFamilies)
    if (name == type) return describe_family(config);
  return fail(ErrorCode::kUnsupported,
              fmt::format("the architecture {} is not supported", in_quotes(type)), "model_type");
}

}  // namespace exo::engine::families
