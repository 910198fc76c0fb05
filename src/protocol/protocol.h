// The front door of protocol: the request, chunk and task types that adapters, worker and serving
// share; data only.
//
// - request.h: TextRequest, the canonical generation request
// - chunk.h: what flows back, one terminal chunk per request
// - task.h: what a runner is told to do, and what it reports
// - frame.h: length-prefixed CBOR between processes
#pragma once

#include "protocol/chunk.h"
#include "protocol/request.h"
#include "protocol/task.h"
