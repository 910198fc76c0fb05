#include "models/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/descriptor.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/strings.h"
#include "models/checkpoint.h"
#include "models/place_file.h"

namespace exo::models {
namespace {

using std::filesystem::path;

constexpr const char* kMarkName = ".exo-model.json";
constexpr const char* kCardName = "card.toml";
constexpr std::string_view kPartial = ".partial-";
constexpr std::size_t kMaxMarkBytes = 1 << 20;
constexpr std::size_t kMaxPartBytes = 96;

std::string directory_name(const ModelId& id) {
  std::string name = id.value;
  name.replace(name.find('/'), 1, "--");
  return name;
}

// "org--name" → "org/name"; nothing for what cannot be a model's directory.
std::optional<ModelId> id_of_directory(const std::string& name) {
  const std::size_t dashes = name.find("--");
  if (dashes == std::string::npos) return std::nullopt;
  auto id = parse_model_id(name.substr(0, dashes) + "/" + name.substr(dashes + 2));
  return id ? std::optional(*id) : std::nullopt;
}

struct SourceFile {
  path file;
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // ns since the epoch
};

Result<SourceFile> describe(const path& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return fail_errno(errno, "cannot read the file", file);
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kInvalidInput, "not a regular file", file);
  return SourceFile{
      .file = file,
      .bytes = static_cast<std::uint64_t>(info.st_size),
      .modified = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

// The files of a model: a .gguf with its shards, or all regular files of a directory (one level;
// nothing hidden).
Result<std::vector<SourceFile>> files_of(const path& source) {
  std::vector<SourceFile> files;
  std::error_code error;
  if (!std::filesystem::is_directory(source, error)) {
    const std::string name = source.filename();
    const std::size_t of = name.rfind("-of-");
    const bool split = of != std::string::npos && of >= 6 &&
                       name.size() == of + std::string_view("-of-00002.gguf").size();
    if (!split) {
      EXO_TRY(SourceFile one, describe(source));
      return std::vector{std::move(one)};
    }
    for (const auto& entry : std::filesystem::directory_iterator(source.parent_path(), error)) {
      const std::string other = entry.path().filename();
      if (other.size() != name.size() || !other.starts_with(name.substr(0, of - 5)) ||
          !other.ends_with(name.substr(of)))
        continue;
      EXO_TRY(SourceFile shard, describe(entry.path()));
      files.push_back(std::move(shard));
    }
  } else {
    for (const auto& entry : std::filesystem::directory_iterator(source, error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with('.') || !entry.is_regular_file(error)) continue;
      EXO_TRY(SourceFile file, describe(entry.path()));
      files.push_back(std::move(file));
    }
  }
  if (error) return fail_errno(error.value(), "cannot read the directory", source);
  std::ranges::sort(files, {}, &SourceFile::file);
  return files;
}

std::int64_t unix_seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Json mark_of(const ModelId& id, const std::vector<SourceFile>& files,
             const std::optional<path>& registered) {
  Json list = Json::array();
  for (const SourceFile& file : files) {
    Json entry = {{"name", file.file.filename().string()}, {"bytes", file.bytes}};
    if (registered) entry["modified"] = file.modified;
    list.push_back(std::move(entry));
  }
  Json mark = {{"id", id.value}, {"created", unix_seconds_now()}, {"files", std::move(list)}};
  if (registered) mark["path"] = registered->string();
  return mark;
}

// Whether the mark's files are all there as it says.
Result<void> check_files(const Json& mark, const path& directory, bool registered) {
  for (const Json& file : mark.at("files")) {
    const std::string name = file.at("name").get<std::string>();
    if (name.empty() || name.contains('/'))
      return fail(ErrorCode::kInvalidInput, "the model's mark is damaged", directory);
    EXO_TRY(const SourceFile found, describe(directory / name));
    const bool same = found.bytes == file.at("bytes").get<std::uint64_t>() &&
                      (!registered || found.modified == file.at("modified").get<std::int64_t>());
    if (!same) {
      return fail(ErrorCode::kInvalidInput,
                  registered ? "the file has changed since it was registered: import it again"
                             : "the model's files are not those that were imported",
                  found.file);
    }
  }
  return {};
}

Result<Card> card_of(const path& directory, const ModelId& id, const path& model) {
  std::error_code error;
  if (std::filesystem::exists(directory / kCardName, error)) {
    EXO_TRY(const std::string text, read_file(directory / kCardName, kMaxMarkBytes));
    EXO_TRY(Card card, parse_card(text));
    card.id = id;
    return card;
  }
  EXO_TRY(const auto checkpoint, open_checkpoint(model));
  return derive_card(id, *checkpoint);
}

// What open_checkpoint() takes for the model in `directory`: the first .gguf, or the directory
// itself.
path model_path(const Json& files, const path& directory) {
  std::optional<std::string> gguf;
  for (const Json& file : files) {
    const std::string name = file.at("name").get<std::string>();
    if (name.ends_with(".gguf") && (!gguf || name < *gguf)) gguf = name;
    if (name == "config.json") return directory;
  }
  return gguf ? directory / *gguf : directory;
}

Result<StoredModel> read_marked(const path& directory) {
  EXO_TRY(const std::string text, read_file(directory / kMarkName, kMaxMarkBytes));
  EXO_TRY(const Json mark, parse_json(text));
  try {
    EXO_TRY(const ModelId id, parse_model_id(mark.at("id").get<std::string>()));
    StoredModel model{.id = id,
                      .created = mark.at("created").get<std::int64_t>(),
                      .linked = mark.contains("path")};
    const path files_at = model.linked ? path(mark["path"].get<std::string>()) : directory;
    EXO_TRY(check_files(mark, files_at, model.linked));
    for (const Json& file : mark["files"]) model.bytes += file["bytes"].get<std::uint64_t>();
    model.path = model_path(mark["files"], files_at);
    EXO_TRY(model.card, card_of(directory, id, model.path));
    return model;
  } catch (const Json::exception&) {
    return fail(ErrorCode::kInvalidInput, "the model's mark is damaged", directory);
  }
}

// A directory that the user put there: complete if its weights are what its index says, which
// opening it checks.
Result<StoredModel> read_unmarked(const path& directory, const ModelId& id) {
  EXO_TRY(const auto checkpoint, open_checkpoint(directory));
  EXO_TRY(const auto files, files_of(directory));
  StoredModel model{.id = id, .path = directory};
  for (const SourceFile& file : files) {
    model.bytes += file.bytes;
    model.created = std::max(model.created, file.modified / 1'000'000'000);
  }
  EXO_TRY(model.card, derive_card(id, *checkpoint));
  return model;
}

Result<StoredModel> read_entry(const path& directory, const ModelId& id) {
  std::error_code error;
  if (std::filesystem::exists(directory / kMarkName, error)) return read_marked(directory);
  if (std::filesystem::exists(directory / "config.json", error))
    return read_unmarked(directory, id);
  return fail(ErrorCode::kNotFound, "no completeness mark", directory);
}

// local/<name> out of a file's or directory's name; characters that an id cannot have become "-".
Result<ModelId> derived_id(const path& source) {
  std::error_code error;
  path clean = source.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  std::string name = std::filesystem::is_directory(source, error) ? clean.filename() : clean.stem();
  if (const std::size_t split = name.find("-00001-of-"); split != std::string::npos)
    name.resize(split);
  for (char& c : name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!allowed) c = '-';
  }
  for (std::size_t at; (at = name.find("--")) != std::string::npos;) name.erase(at, 1);
  const std::size_t first = name.find_first_not_of(".-");
  name = first == std::string::npos ? "" : name.substr(first, kMaxPartBytes);
  if (name.empty())
    return fail(ErrorCode::kInvalidInput,
                "no name can be made of the file's name: give one with --name", source);
  return parse_model_id("local/" + name);
}

// Held while models are added or removed, so that two processes do not meet half-way.
class StoreLock {
 public:
  static Result<StoreLock> take(const path& models) {
    Descriptor file(::open((models / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (file.get() < 0) return fail_errno(errno, "cannot write into the model directory", models);
    if (::flock(file.get(), LOCK_EX) != 0)
      return fail_errno(errno, "cannot lock the model directory", models);
    return StoreLock(std::move(file));
  }

 private:
  explicit StoreLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

// What a killed import left behind. Nobody else imports: the lock is held.
void remove_partial(const path& models) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(models, error)) {
    if (std::string(entry.path().filename()).starts_with(kPartial))
      std::filesystem::remove_all(entry.path(), error);
  }
}

bool same_files(const path& directory, const std::vector<SourceFile>& files) {
  const auto text = read_file(directory / kMarkName, kMaxMarkBytes);
  const auto mark = text ? parse_json(*text) : Result<Json>(fail(ErrorCode::kNotFound, ""));
  if (!mark || !mark->is_object() || !mark->value("files", Json()).is_array() ||
      (*mark)["files"].size() != files.size())
    return false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Json& entry = (*mark)["files"][i];
    if (entry.value("name", "") != files[i].file.filename() ||
        entry.value("bytes", std::uint64_t{0}) != files[i].bytes)
      return false;
  }
  return true;
}

struct Import {
  path source;
  ModelId id;
  std::vector<SourceFile> files;
  ImportMode mode;
};

// Registers by path if linking is not possible and the mode allows it. Gives the path that was
// registered.
Result<std::optional<path>> place_files(const Import& import, const path& target,
                                        const Store::Progress& progress) {
  std::uint64_t total = 0, done = 0;
  for (const SourceFile& file : import.files) total += file.bytes;
  const auto advance = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  for (const SourceFile& file : import.files) {
    const path to = target / file.file.filename();
    if (import.mode == ImportMode::kRegister) {
      EXO_TRY(const bool linked, link_file(file.file, to));
      if (!linked) {
        std::error_code error;
        for (const SourceFile& placed : import.files)
          std::filesystem::remove(target / placed.file.filename(), error);
        return std::optional<path>(std::filesystem::absolute(import.files[0].file.parent_path()));
      }
    } else {
      const std::uint64_t before = done;
      EXO_TRY(place_file(file.file, to, advance));
      if (done != before) continue;  // copied, and counted piece by piece
    }
    advance(file.bytes);
  }
  return std::optional<path>();
}

Result<void> fill_directory(const Import& import, const Card& card, const path& target,
                            const Store::Progress& progress) {
  EXO_TRY(const std::optional<path> registered, place_files(import, target, progress));
  EXO_TRY(write_file(target / kCardName, to_toml(card)));
  return write_file(target / kMarkName,
                    pretty_json(mark_of(import.id, import.files, registered)) + "\n");
}

}  // namespace

Result<ModelId> parse_model_id(std::string_view text) {
  const std::string full = text.contains('/') ? std::string(text) : "local/" + std::string(text);
  const auto parts = split(full, '/');
  const auto valid = [](std::string_view part) {
    return !part.empty() && part.size() <= kMaxPartBytes && part[0] != '.' && part[0] != '-' &&
           !part.contains("--") && std::ranges::all_of(part, [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-';
           });
  };
  // The directory "org--name" must give the id back, so only the name may hold two dashes.
  const auto valid_name = [&](std::string_view part) {
    std::string single(part);
    for (std::size_t at; (at = single.find("--")) != std::string::npos;) single.erase(at, 1);
    return part.size() <= kMaxPartBytes && valid(single);
  };
  if (parts.size() != 2 || !valid(parts[0]) || parts[0].ends_with('-') || !valid_name(parts[1])) {
    return fail(ErrorCode::kInvalidInput,
                "a model's name is ORG/NAME or NAME, of letters, digits, '.', '_' and '-'",
                std::string(text.substr(0, 200)));
  }
  return ModelId{full};
}

Store::Store(Paths paths) : paths_(std::move(paths)) {}

std::vector<StoredModel> Store::list() const {
  std::vector<path> directories{paths_.models};
  directories.insert(directories.end(), paths_.more_models.begin(), paths_.more_models.end());
  directories.insert(directories.end(), paths_.read_only_models.begin(),
                     paths_.read_only_models.end());
  std::map<std::string, StoredModel> models;
  for (const path& directory : directories) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      const auto id = id_of_directory(entry.path().filename());
      if (!id || models.contains(id->value)) continue;
      auto model = read_entry(entry.path(), *id);
      if (model && model->id == *id) {
        models.emplace(id->value, std::move(*model));
      } else if (!model && model.error().code != ErrorCode::kNotFound) {
        log::warn("leaving out {}: {}", id->value, to_string(model.error()));
      }
    }
  }
  std::vector<StoredModel> list;
  for (auto& [id, model] : models) list.push_back(std::move(model));
  return list;
}

Result<StoredModel> Store::find(std::string_view wanted) const {
  constexpr std::string_view kLatest = ":latest";
  std::vector<StoredModel> models = list();
  const auto exact = [&](std::string_view text) {
    return std::ranges::find(models, text,
                             [](const StoredModel& m) -> std::string_view { return m.id.value; });
  };
  if (const auto found = exact(wanted); found != models.end()) return std::move(*found);
  if (wanted.ends_with(kLatest)) wanted.remove_suffix(kLatest.size());
  if (const auto found = exact(wanted); found != models.end()) return std::move(*found);

  const std::string lower = to_lower_ascii(wanted);
  std::vector<const StoredModel*> matches;
  for (const StoredModel& model : models) {
    const std::string id = to_lower_ascii(model.id.value);
    if (id == lower || id.substr(id.find('/') + 1) == lower) matches.push_back(&model);
  }
  if (matches.size() == 1) return *matches[0];
  if (matches.empty())
    return fail(ErrorCode::kNotFound, fmt::format("no model \"{}\" is in the store", wanted),
                std::string(wanted));
  std::vector<std::string> ids;
  for (const StoredModel* model : matches) ids.push_back(model->id.value);
  return fail(
      ErrorCode::kInvalidInput,
      fmt::format("\"{}\" may mean {}: give the whole name", wanted, fmt::join(ids, " or ")),
      std::string(wanted));
}

Result<StoredModel> Store::import(const path& source, std::optional<ModelId> id, ImportMode mode,
                                  const Progress& progress) {
  EXO_TRY(const auto checkpoint, open_checkpoint(source));
  if (!id) {
    EXO_TRY(id, derived_id(source));
  }
  EXO_TRY(*id, parse_model_id(id->value));
  EXO_TRY(auto files, files_of(source));
  EXO_TRY(const Card card, derive_card(*id, *checkpoint));
  EXO_TRY(make_directories(paths_.models));
  EXO_TRY(const StoreLock lock, StoreLock::take(paths_.models));
  remove_partial(paths_.models);

  const path target = paths_.models / directory_name(*id);
  std::error_code error;
  if (std::filesystem::exists(target, error)) {
    auto present = read_entry(target, *id);
    if (present && same_files(target, files)) return present;
    if (present) {
      return fail(
          ErrorCode::kAlreadyExists,
          fmt::format(
              "a model named {} is there already: remove it with exo rm, or give another --name",
              id->value),
          id->value);
    }
    std::filesystem::remove_all(target, error);  // not a model: left over, or its files are gone
  }
  const path partial =
      paths_.models / fmt::format("{}{}-{}", kPartial, directory_name(*id), random_hex(8));
  EXO_TRY(make_directories(partial));
  auto filled =
      fill_directory({.source = source, .id = *id, .files = std::move(files), .mode = mode}, card,
                     partial, progress);
  if (filled && ::rename(partial.c_str(), target.c_str()) != 0)
    filled = fail_errno(errno, "cannot finish the import", target);
  if (!filled) {
    std::filesystem::remove_all(partial, error);
    return std::unexpected(std::move(filled.error()));
  }
  return read_entry(target, *id);
}

Result<StoredModel> Store::remove(std::string_view name) {
  EXO_TRY(StoredModel model, find(name));
  std::vector<path> writable{paths_.models};
  writable.insert(writable.end(), paths_.more_models.begin(), paths_.more_models.end());
  for (const path& directory : writable) {
    const path target = directory / directory_name(model.id);
    std::error_code error;
    if (!std::filesystem::exists(target, error)) continue;
    EXO_TRY(const StoreLock lock, StoreLock::take(directory));
    // First out of sight as a whole, so that a kill on the way leaves no half model.
    const path hidden =
        directory / fmt::format("{}{}-{}", kPartial, directory_name(model.id), random_hex(8));
    if (::rename(target.c_str(), hidden.c_str()) != 0)
      return fail_errno(errno, "cannot remove the model", target);
    std::filesystem::remove_all(hidden, error);
    return model;
  }
  return fail(ErrorCode::kPermission, "the model lies in a directory that exo only reads",
              model.id.value);
}

}  // namespace exo::models
