// The quantisation block of config.json: which module is stored how. Source: models.md 1.3.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace exo::models {

struct QuantizationParameters {
  enum class Mode : std::uint8_t {
    kAffine,
    kMxfp4,
    kMxfp8,
    kNvfp4,
    kFloat8Squares,  // quant_method fp8: E4M3 with a scale per square, as raw hub files have it
  };
  Mode mode = Mode::kAffine;
  std::uint8_t bits = 4;
  std::uint16_t group_size = 64;
  friend bool operator==(const QuantizationParameters&, const QuantizationParameters&) = default;
};

class QuantizationBlock {
 public:
  // Errors: kUnsupported: a mode or quant_method, by name; kInvalidInput: bits or groups out of
  // range, `subject` the module.
  static Result<QuantizationBlock> parse(const Json& config);

  bool present() const { return present_; }
  // What `module` uses if `has_scales` (a tensor with its scales exists); nothing: it is not
  // quantised.
  std::optional<QuantizationParameters> of(std::string_view module, bool has_scales) const;

 private:
  bool present_ = false;
  QuantizationParameters defaults_;
  std::map<std::string, std::optional<QuantizationParameters>, std::less<>> overrides_;
};

}  // namespace exo::models
