// What a model's card says where a request names no sampling parameter. Source: api.md 3.1,
// cluster.md 4.3.
#pragma once

#include "models/card.h"
#include "protocol/request.h"

namespace exo::api {

// Fills in what `request` leaves open from one of the card's sets, the one of its thinking mode if
// the card has that, else the flat one; never from two. What the set leaves open, too, stays open:
// the engine's default.
void apply_card_defaults(protocol::TextRequest& request, const models::Card& card);

}  // namespace exo::api
