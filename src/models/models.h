// The front door of models: what a model is without running it.
//
//   checkpoint.h        configuration and tensors      tokenizer_source.h  tokenizer and templates
//   gguf.h              the container of GGUF files    safetensors.h       that of MLX directories
//   gguf_config.h       GGUF metadata → config.json    gguf_tokenizer.h    → tokenizer.json
//   directory_tokenizer.h  tokenizer.json and what lies beside it
//   mapped_file.h       files in memory                json_file.h         small JSON files
//   card.h              what is said of a model        store.h             models on disk
//
// The main path enters at open_checkpoint().
#pragma once

#include "models/card.h"
#include "models/checkpoint.h"
#include "models/store.h"
