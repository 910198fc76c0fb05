// The front door of serving: what runs inside a runner process.
//
//   runner.h      the process's main: tasks in, reports out
//   scheduler.h   which request runs when
//   generation.h  one request from prompt to terminal chunk
//   prompt.h      messages → token ids
//
// Leaves to others: the process's supervision (worker), the arithmetic (engine).
#pragma once

#include "serving/runner.h"
