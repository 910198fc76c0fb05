// The models on this machine: one directory per model, whole or not there at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/id.h"
#include "core/paths.h"
#include "core/result.h"
#include "models/card.h"

namespace exo::models {

struct StoredModel {
  ModelId id = {};
  std::filesystem::path path = {};  // what open_checkpoint() takes
  std::uint64_t bytes = 0;          // on disk
  std::int64_t created = 0;         // unix seconds, of the import
  Card card = {};
  bool linked = false;  // registered by path: the files stay where the user keeps them
};

enum class ImportMode : std::uint8_t {
  kOwn,       // hard link, else reflink, else copy
  kRegister,  // hard link or reflink, else by path, size and modification time
};

// A directory of models: `<org>--<name>/` with the files and, written last, the mark
// `.exo-model.json` (id, creation time, files with their sizes; for a registered one the path, size
// and mtime). A directory without the mark, or whose files disagree with it, is not a model. Only
// the mark of this class makes one; directories in Hugging Face layout that a user put there count
// as complete if their weights match their index.
class Store {
 public:
  explicit Store(Paths paths);

  // All complete models, by id; the first directory that has an id wins. Unreadable entries are
  // logged and left out.
  std::vector<StoredModel> list() const;

  // By exact id, else by api.md 1.13: ":latest" stripped, else a unique case-insensitive match of
  // the id or of the part after the last "/". Errors: kNotFound: none; kInvalidInput: several, and
  // which.
  Result<StoredModel> find(std::string_view name) const;

  using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
  // Brings a file (.gguf, all its shards) or directory into the store as `id`; without one as
  // local/<name of the file, without extension, or of the directory>. Importing the same files
  // again under the same id is no error. Errors: kInvalidInput: not a model, or a bad name;
  // kUnsupported; kAlreadyExists: another model has the id; kNoSpace; kPermission. A failed or
  // killed import leaves nothing that looks whole.
  Result<StoredModel> import(const std::filesystem::path& source, std::optional<ModelId> id,
                             ImportMode mode, const Progress& progress = {});

  // Removes the store's own files (never a registered original). Errors: kNotFound, kPermission.
  Result<StoredModel> remove(std::string_view name);

 private:
  Paths paths_;
};

// "org/name": each part 1..96 characters of [A-Za-z0-9._-], not beginning with "." or "-". A bare
// name becomes local/<name>. Errors: kInvalidInput.
Result<ModelId> parse_model_id(std::string_view text);

}  // namespace exo::models
