// The front door of models: what a model is without running it.
//
//   mapped_file.h   files in memory                       checkpoint.h  a model's configuration,
//   tensors, tokenizer and template safetensors.h   the container of MLX directories      gguf.h
//   the container of GGUF files gguf_config.h   GGUF metadata → config.json gguf_tokenizer.h  GGUF
//   metadata → tokenizer.json card.h          what is said of a model (TOML)        store.h models
//   on disk: import, list, find, remove
//
// The main path enters at open_checkpoint().
#pragma once

#include "models/card.h"
#include "models/checkpoint.h"
#include "models/store.h"
