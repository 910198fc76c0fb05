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

struct AffineParameters {
  std::uint8_t bits = 4;
  std::uint16_t group_size = 64;
  friend bool operator==(const AffineParameters&, const AffineParameters&) = default;
};

class QuantizationBlock {
 public:
  // Errors: kUnsupported: a mode or quant_method, by name; kInvalidInput: bits or groups out of
  // range, `subject` the module.
  static Result<QuantizationBlock> parse(const Json& config);

  bool present() const { return present_; }
  // What `module` uses if `has_scales` (a tensor <module>.scales exists); nothing: it is not
  // quantised.
  std::optional<AffineParameters> of(std::string_view module, bool has_scales) const;

 private:
  bool present_ = false;
  AffineParameters defaults_;
  std::map<std::string, std::optional<AffineParameters>, std::less<>> overrides_;
};

}  // namespace exo::models
