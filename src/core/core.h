// The front door of core: what every room needs and what knows nothing of the product.
//
//   result.h      Error, Result<T>, fail, EXO_TRY, EXO_CO_TRY     check.h   EXO_CHECK for our own
//   bugs id.h          strong ids, random ids                          bytes.h   little-endian
//   reads, checked sizes json.h        the Json type, bounded parsing                  cbor.h
//   bounded CBOR for frames between processes utf8.h        validation and longest valid prefix
//   strings.h small text helpers paths.h       home, config, data, cache, model directories log.h
//   spdlog set-up with rotating files subprocess.h  children with captured output clock.h   the
//   monotonic clock as an argument mutex.h       a mutex the compiler checks queue.h   a bounded
//   queue between threads file.h        whole files, atomic replacement function_ref.h  a borrowed
//   callable
#pragma once

#include "core/check.h"
#include "core/result.h"
