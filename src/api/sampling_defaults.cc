#include "api/sampling_defaults.h"

namespace exo::api {
namespace {

const models::SamplingDefaults& chosen_set(const protocol::TextRequest& request,
                                           const models::Card& card) {
  if (!request.enable_thinking) return card.sampling;
  const auto set =
      card.sampling_by_mode.find(*request.enable_thinking ? "thinking" : "non_thinking");
  return set == card.sampling_by_mode.end() ? card.sampling : set->second;
}

template <typename T>
void fill(std::optional<T>& value, const std::optional<T>& otherwise) {
  if (!value) value = otherwise;
}

}  // namespace

void apply_card_defaults(protocol::TextRequest& request, const models::Card& card) {
  const models::SamplingDefaults& defaults = chosen_set(request, card);
  protocol::SamplingParameters& sampling = request.sampling;
  fill(sampling.temperature, defaults.temperature);
  fill(sampling.top_p, defaults.top_p);
  fill(sampling.min_p, defaults.min_p);
  fill(sampling.top_k, defaults.top_k);
  fill(sampling.repetition_penalty, defaults.repetition_penalty);
  fill(sampling.presence_penalty, defaults.presence_penalty);
  fill(sampling.frequency_penalty, defaults.frequency_penalty);
}

}  // namespace exo::api
