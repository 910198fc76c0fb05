// Owning wrappers of what the Rust library hands over. Internal to engine/.
#pragma once

#include <cstddef>
#include <exo_rust.h>
#include <string>

#include "core/result.h"

namespace exo::engine {

// The text, freed.
inline std::string take_text(ExoText text) {
  std::string copy(text.data, text.size);
  exo_text_free(text);
  return copy;
}

inline std::unexpected<Error> rust_error(ExoText message) {
  return fail(ErrorCode::kInvalidInput, take_text(message));
}

}  // namespace exo::engine
