// The tensor types of GGUF by number, and the weight formats that they are. Source: gguf.md 2.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "models/checkpoint.h"

namespace exo::models {

struct GgufType {
  std::uint32_t number = 0;
  const char* name = "";
  std::size_t block = 1, bytes = 0;  // elements and bytes of a block
};

// nullptr: a removed or unknown number; a format that GGUF has no type for.
const GgufType* gguf_type(std::uint32_t number);
const GgufType* gguf_type(const WeightFormat& format);

// Nothing: a type that weights cannot be read from here.
std::optional<WeightFormat> weight_format(const GgufType& type);

}  // namespace exo::models
