#include "engine/decoder_spec.h"

#include "core/overloaded.h"
#include "engine/families/families.h"

namespace exo::engine {

std::vector<float> frequencies(const RopeSpec& rope) {
  return std::visit(
      Overloaded{
          [&](const DefaultRope&) { return kernels::default_frequencies(rope.rotated, rope.base); },
          [&](const LinearRope& linear) {
            auto result = kernels::default_frequencies(rope.rotated, rope.base);
            for (float& f : result) f = static_cast<float>(f / linear.factor);
            return result;
          },
          [&](const Llama3Rope& llama3) {
            return kernels::llama3_frequencies(rope.rotated, rope.base,
                                               {.factor = llama3.factor,
                                                .low_freq_factor = llama3.low_freq_factor,
                                                .high_freq_factor = llama3.high_freq_factor,
                                                .original_context = llama3.original_context});
          },
          [&](const DivisorRope& explicit_divisors) {
            auto result = kernels::default_frequencies(rope.rotated, rope.base);
            for (std::size_t i = 0; i < result.size(); ++i)
              result[i] /= explicit_divisors.divisors[i];
            return result;
          }},
      rope.scaling);
}

Result<DecoderSpec> decoder_spec(const Json& config) { return families::describe(config); }

}  // namespace exo::engine
