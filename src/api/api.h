// The front door of api: the HTTP server, and what it needs from below.
//
//   server.h         the server: addresses, limits, shutdown     inference.h      models and
//   generations, an interface session.h        one connection                              router.h
//   paths, methods, origins, keys chat_request.h   OpenAI's body → canonical request
//   chat_response.h  chunks → OpenAI's body and events chat_messages.h  its messages models_body.h
//   listings fields.h         typed fields of a client's JSON             http_error.h     errors
//   as HTTP
//
// The main path enters at Server::start(); a chat goes through session.cc:serve_chat().
#pragma once

#include "api/inference.h"
#include "api/server.h"
