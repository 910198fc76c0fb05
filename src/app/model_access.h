// A model that a command names, opened in the command's own process: how the instruments and the
// measurements come to it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "app/command.h"
#include "core/result.h"
#include "engine/engine.h"
#include "kernels/multiply.h"
#include "kernels/thread_pool.h"
#include "models/tokenizer_source.h"

namespace exo::app {

// A model of the store by its name, else a file or directory. Errors: kNotFound: neither;
// kInvalidInput: several models answer to the name.
Result<std::filesystem::path> model_path(const Context& context, const std::string& name);

// Makes the instruction set of the settings the process's. Errors: kInvalidInput, kUnsupported.
Result<void> choose_isa(const Settings& settings);

kernels::Precision precision_of(const Settings& settings);

// Errors: as models::open_tokenizer_source() and engine::Tokenizer::open().
Result<std::unique_ptr<models::TokenizerSource>> find_tokenizer(const Context& context,
                                                                const std::string& name);
Result<engine::Tokenizer> load_tokenizer(const models::TokenizerSource& source);

// A model with the threads that compute it.
struct LocalModel {
  std::unique_ptr<kernels::ThreadPool> pool = {};
  std::unique_ptr<engine::Model> model = {};
};
// Shows progress. Errors: as models::open_checkpoint() and engine::Model::load().
Result<LocalModel> load_model(const Context& context, const std::string& name);

}  // namespace exo::app
