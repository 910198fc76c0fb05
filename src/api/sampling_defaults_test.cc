#include "api/sampling_defaults.h"

#include <gtest/gtest.h>

namespace exo::api {
namespace {

models::Card card_with_modes() {
  models::Card card;
  card.sampling = {.temperature = 0.1,
                   .top_p = 0.11,
                   .min_p = 0.12,
                   .repetition_penalty = 1.1,
                   .presence_penalty = 0.13,
                   .frequency_penalty = 0.14,
                   .top_k = 1};
  card.sampling_by_mode["thinking"] = {.temperature = 0.2};
  card.sampling_by_mode["non_thinking"] = {.top_k = 3};
  return card;
}

protocol::SamplingParameters applied(const models::Card& card, std::optional<bool> thinking,
                                     protocol::SamplingParameters given = {}) {
  protocol::TextRequest request{.sampling = std::move(given), .enable_thinking = thinking};
  apply_card_defaults(request, card);
  return request.sampling;
}

TEST(CardDefaults, EveryFieldThatIsOpenIsFilledIn) {
  EXPECT_EQ(applied(card_with_modes(), std::nullopt),
            (protocol::SamplingParameters{.temperature = 0.1,
                                          .top_p = 0.11,
                                          .min_p = 0.12,
                                          .top_k = 1,
                                          .repetition_penalty = 1.1,
                                          .presence_penalty = 0.13,
                                          .frequency_penalty = 0.14}));
  EXPECT_EQ(applied({}, std::nullopt), protocol::SamplingParameters{});
}

TEST(CardDefaults, WhatTheRequestSaysStays) {
  const protocol::SamplingParameters given{.temperature = 0,
                                           .top_p = 1,
                                           .min_p = 0,
                                           .top_k = 0,
                                           .repetition_penalty = 1,
                                           .presence_penalty = 0,
                                           .frequency_penalty = 0,
                                           .repetition_context_size = 5,
                                           .seed = 7};
  EXPECT_EQ(applied(card_with_modes(), std::nullopt, given), given);
}

TEST(CardDefaults, AModesOwnSetIsTheOnlyOne) {
  EXPECT_EQ(applied(card_with_modes(), true), (protocol::SamplingParameters{.temperature = 0.2}));
  EXPECT_EQ(applied(card_with_modes(), false), (protocol::SamplingParameters{.top_k = 3}));
  models::Card flat = card_with_modes();
  flat.sampling_by_mode.clear();
  EXPECT_EQ(applied(flat, true).temperature, 0.1);
  EXPECT_EQ(applied(flat, false).top_k, 1);
}

}  // namespace
}  // namespace exo::api
