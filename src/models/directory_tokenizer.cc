#include "models/directory_tokenizer.h"

#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json.h"
#include "models/json_file.h"

namespace exo::models {
namespace {

using std::filesystem::path;

void add_special_tokens(const Json& from, std::map<std::string, std::string>& tokens) {
  for (const auto& [key, value] : from.items()) {
    if (!key.ends_with("_token")) continue;
    if (auto text = token_text(value)) tokens.emplace(key, std::move(*text));
  }
}

void add_templates(const Json& value, std::vector<ChatTemplate>& templates) {
  if (value.is_string()) {
    templates.push_back({"default", value.get<std::string>()});
  } else if (value.is_array()) {
    for (const Json& entry : value) {
      if (entry.is_object() && entry.value("name", Json()).is_string() &&
          entry.value("template", Json()).is_string()) {
        templates.push_back(
            {entry["name"].get<std::string>(), entry["template"].get<std::string>()});
      }
    }
  }
}

}  // namespace

Result<TokenizerFiles> DirectoryTokenizer::tokenizer() const {
  TokenizerFiles files;
  const Json config = read_optional_json(directory_ / "tokenizer_config.json", kMaxConfigBytes)
                          .value_or(Json::object());
  add_special_tokens(config, files.special_tokens);
  if (const auto map = read_optional_json(directory_ / "special_tokens_map.json", kMaxConfigBytes))
    add_special_tokens(*map, files.special_tokens);
  const path own_template = directory_ / "chat_template.jinja";
  if (is_there(own_template)) {
    EXO_TRY(std::string text, read_file(own_template, kMaxConfigBytes));
    files.chat_templates.push_back({"default", std::move(text)});
  } else if (const auto found = config.find("chat_template"); found != config.end()) {
    add_templates(*found, files.chat_templates);
  }
  const auto add_bos = config.find("add_bos_token");
  files.add_bos = add_bos != config.end() && add_bos->is_boolean() && add_bos->get<bool>();
  const auto model = read_optional_json(directory_ / "config.json", kMaxConfigBytes);
  if (model && model->contains("bos_token_id"))
    files.bos_token_id = token_id((*model)["bos_token_id"]);
  return files;
}

Result<std::string> DirectoryTokenizer::tokenizer_json() const {
  const path document = directory_ / kTokenizerDocument;
  if (!is_there(document)) {
    return fail(ErrorCode::kNotFound,
                "the model has no tokenizer.json, the only form of tokenizer read from a directory",
                document);
  }
  return read_file(document, kMaxTokenizerBytes);
}

bool DirectoryTokenizer::has_token(std::string_view text) const {
  const auto document = tokenizer_json();
  return document && document->contains(dump_json(Json(text)));
}

}  // namespace exo::models
