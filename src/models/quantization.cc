#include "models/quantization.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace exo::models {
namespace {

Result<AffineParameters> parse_parameters(const Json& block, const std::string& module) {
  const auto mode = block.find("mode");
  if (mode != block.end() && *mode != "affine") {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("quantisation mode {} is not supported yet (affine is)", dump_json(*mode)),
        module);
  }
  AffineParameters parameters;
  const auto read = [&](const char* key, std::int64_t fallback) -> std::int64_t {
    const auto found = block.find(key);
    if (found == block.end() || found->is_null()) return fallback;
    return found->is_number_integer() ? found->get<std::int64_t>() : -1;
  };
  constexpr std::array kBits = {2, 3, 4, 5, 6, 8};
  constexpr std::array kGroups = {32, 64, 128};
  const std::int64_t bits = read("bits", 4), group = read("group_size", 64);
  if (std::ranges::find(kBits, bits) == kBits.end()) {
    return fail(ErrorCode::kUnsupported, "quantisation bits must be 2, 3, 4, 5, 6 or 8", module);
  }
  if (std::ranges::find(kGroups, group) == kGroups.end()) {
    return fail(ErrorCode::kUnsupported, "quantisation group_size must be 32, 64 or 128", module);
  }
  parameters.bits = static_cast<std::uint8_t>(bits);
  parameters.group_size = static_cast<std::uint16_t>(group);
  return parameters;
}

}  // namespace

Result<QuantizationBlock> QuantizationBlock::parse(const Json& config) {
  QuantizationBlock result;
  const char* key = config.contains("quantization") ? "quantization" : "quantization_config";
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return result;
  const Json& block = *found;
  if (!block.is_object()) return fail(ErrorCode::kInvalidInput, "must be an object", key);
  if (const auto method = block.find("quant_method");
      method != block.end() && !block.contains("bits")) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("quant_method {} is not supported yet", dump_json(*method)), key);
  }
  result.present_ = true;
  EXO_TRY(result.defaults_, parse_parameters(block, key));
  for (const auto& [module, value] : block.items()) {
    if (value.is_object()) {
      EXO_TRY(const AffineParameters parameters, parse_parameters(value, module));
      result.overrides_.emplace(module, parameters);
    } else if (value.is_boolean() && module.contains('.')) {
      result.overrides_.emplace(module,
                                value.get<bool>() ? std::optional(result.defaults_) : std::nullopt);
    }
  }
  return result;
}

std::optional<AffineParameters> QuantizationBlock::of(std::string_view module,
                                                      bool has_scales) const {
  if (const auto found = overrides_.find(module); found != overrides_.end()) return found->second;
  return has_scales ? std::optional(defaults_) : std::nullopt;
}

}  // namespace exo::models
