// The front door of api: the HTTP server, and what it needs from below.
//
//   server.h             the server: addresses, shutdown    limits.h         what clients may take
//   session.h            one connection's requests          connection.h     its writing side
//   router.h             paths, methods, origins, keys      body_budget.h    memory of all bodies
//   reply.h              replies that exist as a whole      models_body.h    listings
//   chat_exchange.h      one chat, streamed or whole        http_error.h     errors as HTTP
//   chat_request.h       OpenAI's body → canonical request  chat_messages.h  its messages
//   chat_response.h      chunks → OpenAI's body and events  fields.h         a client's JSON, typed
//   sampling_defaults.h  what a model's card fills in
//   inference.h          models and generations, an interface
//
// The main path enters at Server::start(); a chat goes through chat_exchange.cc:serve_chat().
#pragma once

#include "api/inference.h"
#include "api/server.h"
