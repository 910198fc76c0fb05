// The front door of engine: runs a model.
//
// - model.h: a loaded model: prefill and decode over a sequence's cache
// - decoder_spec.h: an architecture as data
// - families/: config.json and tensor names → DecoderSpec
// - executor.h: one executor over a Backend
// - backend.h: the GPU seam: layer-level operations
// - cpu_backend.h: the first backend; projection.h: linear modules that share their input
// - weight_loader.h: a checkpoint's tensors into tiles
// - kv_cache.h: keys and values of one sequence
// - sampler.h: logits → token; logit_scan.h: passes over a vocabulary
// - tokenizer.h: text ⇄ ids
// - detokenizer.h: ids → text as a stream
// - chat_template.h: messages → prompt
// - footprint.h: memory needed, before loading; perplexity.h: how well a text is expected
//
// Leaves to others: which request runs when (serving), where files come from (models). The main
// path enters at Model::load().
#pragma once

#include "engine/chat_template.h"
#include "engine/detokenizer.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/tokenizer.h"
