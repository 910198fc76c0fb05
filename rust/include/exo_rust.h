// The C boundary of the Rust libraries: tokenizers and minijinja. Kept by hand; rust/src is its other side.
//
// Every function takes UTF-8 as pointer and size. A function that can fail gives null or false and writes a sentence to `error` (if that
// is not null), which the caller frees. Objects are immutable and may be used from several threads at once.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ExoTokenizer ExoTokenizer;
typedef struct ExoTemplate ExoTemplate;

typedef struct {
  char* data;
  size_t size;
} ExoText;

typedef struct {
  uint32_t* data;
  size_t size;
} ExoIds;

void exo_text_free(ExoText text);
void exo_ids_free(ExoIds ids);

// `json`: a tokenizer.json document.
ExoTokenizer* exo_tokenizer_new(const char* json, size_t size, ExoText* error);
void exo_tokenizer_free(ExoTokenizer* tokenizer);
// Adds no special tokens; special text inside maps to its ids.
bool exo_tokenizer_encode(const ExoTokenizer* tokenizer, const char* text, size_t size, ExoIds* out, ExoText* error);
bool exo_tokenizer_decode(const ExoTokenizer* tokenizer, const uint32_t* ids, size_t count, bool skip_special, ExoText* out,
                          ExoText* error);
size_t exo_tokenizer_size(const ExoTokenizer* tokenizer);  // all ids are below it
bool exo_tokenizer_id(const ExoTokenizer* tokenizer, const char* token, size_t size, uint32_t* id);
bool exo_tokenizer_text(const ExoTokenizer* tokenizer, uint32_t id, ExoText* out);
uint32_t exo_tokenizer_flags(const ExoTokenizer* tokenizer, uint32_t id);   // 1: added, 2: special
uint32_t exo_tokenizer_decoder(const ExoTokenizer* tokenizer);  // 0 byte level, 1 SentencePiece, 2 the same without the first space, 3 other

// `source`: a Jinja template; it is rendered as the transformers library would.
ExoTemplate* exo_template_new(const char* source, size_t size, ExoText* error);
void exo_template_free(ExoTemplate* chat_template);
// `variables`: a JSON object.
bool exo_template_render(const ExoTemplate* chat_template, const char* variables, size_t size, ExoText* out, ExoText* error);

#ifdef __cplusplus
}
#endif
