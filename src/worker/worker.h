// The front door of worker: keeps runner processes alive and carries requests to them.
//
//   runner_process.h  one model's runner: started, watched, restarted, ended
#pragma once

#include "worker/runner_process.h"
