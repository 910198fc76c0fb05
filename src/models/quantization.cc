#include "models/quantization.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace exo::models {
namespace {

using Mode = QuantizationParameters::Mode;

// What a mode's fields are when the block does not say, models.md 1.3.
Result<QuantizationParameters> defaults_of(const Json& block, const std::string& module) {
  const auto mode = block.find("mode");
  if (mode == block.end() || *mode == "affine") return QuantizationParameters{};
  if (*mode == "mxfp4") return QuantizationParameters{Mode::kMxfp4, 4, 32};
  if (*mode == "mxfp8") return QuantizationParameters{Mode::kMxfp8, 8, 32};
  if (*mode == "nvfp4") return QuantizationParameters{Mode::kNvfp4, 4, 16};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("quantisation mode {} is unknown (affine, mxfp4, mxfp8 and nvfp4 are known)",
                  dump_json(*mode)),
      module);
}

Result<QuantizationParameters> parse_parameters(const Json& block, const std::string& module) {
  EXO_TRY(QuantizationParameters parameters, defaults_of(block, module));
  const auto read = [&](const char* key, std::int64_t fallback) -> std::int64_t {
    const auto found = block.find(key);
    if (found == block.end() || found->is_null()) return fallback;
    return found->is_number_integer() ? found->get<std::int64_t>() : -1;
  };
  const std::int64_t bits = read("bits", parameters.bits),
                     group = read("group_size", parameters.group_size);
  if (parameters.mode != Mode::kAffine) {
    if (bits == parameters.bits && group == parameters.group_size) return parameters;
    return fail(ErrorCode::kUnsupported,
                fmt::format("this quantisation mode has {} bits and groups of {} only",
                            parameters.bits, parameters.group_size),
                module);
  }
  constexpr std::array kBits = {2, 3, 4, 5, 6, 8};
  constexpr std::array kGroups = {32, 64, 128};
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

// The block of a raw hub checkpoint, models.md 1.8: weights in squares of 128.
Result<QuantizationParameters> parse_float8(const Json& block, const std::string& key) {
  const auto size = block.find("weight_block_size");
  if (size != block.end() && !size->is_null() && *size != Json::array({128, 128}))
    return fail(ErrorCode::kUnsupported, "weight_block_size must be [128, 128]", key);
  return QuantizationParameters{Mode::kFloat8Squares, 8, 128};
}

}  // namespace

Result<QuantizationBlock> QuantizationBlock::parse(const Json& config) {
  QuantizationBlock result;
  const char* key = config.contains("quantization") ? "quantization" : "quantization_config";
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return result;
  const Json& block = *found;
  if (!block.is_object()) return fail(ErrorCode::kInvalidInput, "must be an object", key);
  result.present_ = true;
  if (const auto method = block.find("quant_method");
      method != block.end() && !block.contains("bits")) {
    if (*method != "fp8")
      return fail(ErrorCode::kUnsupported,
                  fmt::format("quant_method {} is not supported yet", dump_json(*method)), key);
    EXO_TRY(result.defaults_, parse_float8(block, key));
    return result;
  }
  EXO_TRY(result.defaults_, parse_parameters(block, key));
  for (const auto& [module, value] : block.items()) {
    if (value.is_object()) {
      EXO_TRY(const QuantizationParameters parameters, parse_parameters(value, module));
      result.overrides_.emplace(module, parameters);
    } else if (value.is_boolean() && module.contains('.')) {
      result.overrides_.emplace(module,
                                value.get<bool>() ? std::optional(result.defaults_) : std::nullopt);
    }
  }
  return result;
}

std::optional<QuantizationParameters> QuantizationBlock::of(std::string_view module,
                                                            bool has_scales) const {
  if (const auto found = overrides_.find(module); found != overrides_.end()) return found->second;
  return has_scales ? std::optional(defaults_) : std::nullopt;
}

}  // namespace exo::models
