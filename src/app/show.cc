#include "app/show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>

#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/model_access.h"
#include "core/strings.h"

namespace exo::app {
namespace {

struct EncodingTotal {
  std::size_t count = 0, bytes = 0, weights = 0;
};

// What is multiplied with, by its encoding; of a model that cannot be run all that its files hold.
std::map<std::string, EncodingTotal> totals(const ShownWeights& weights) {
  std::map<std::string, EncodingTotal> by_encoding;
  const auto add = [&](const std::string& encoding, std::size_t bytes, std::size_t numbers) {
    EncodingTotal& total = by_encoding[encoding];
    ++total.count;
    total.bytes += bytes;
    total.weights += numbers;
  };
  if (!weights.footprint) {
    for (const models::TensorInfo& tensor : weights.tensors) add(tensor.format, tensor.bytes, 0);
    return by_encoding;
  }
  for (const engine::StoredMatrix& matrix : weights.footprint->matrices)
    add(models::to_string(matrix.format), matrix.bytes, matrix.rows * matrix.cols);
  return by_encoding;
}

std::string encoding_text(const std::string& name, const EncodingTotal& total) {
  std::string text = fmt::format("{}: {} tensors, {}", name, total.count, human_bytes(total.bytes));
  if (total.weights > 0)
    text += fmt::format(", {:.3f} bytes per weight",
                        static_cast<double>(total.bytes) / static_cast<double>(total.weights));
  return text;
}

std::string line(std::string_view what, const std::string& text) {
  return fmt::format("{:<14}{}\n", what, text);
}

// The value of a configuration's key, as it is written there.
std::string value(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return "?";
  return found->is_string() ? found->get<std::string>() : dump_json(*found);
}

std::string weights_text(const ShownWeights& weights, bool all_tensors) {
  const Json& config = weights.config;
  std::string text =
      line("architecture",
           fmt::format("{}: {} layers, hidden size {}, {} heads", value(config, "model_type"),
                       value(config, "num_hidden_layers"), value(config, "hidden_size"),
                       value(config, "num_attention_heads")));
  text += line("size", weights.footprint
                           ? fmt::format("{} parameters in {}", weights.footprint->parameters,
                                         human_bytes(weights.bytes))
                           : human_bytes(weights.bytes));
  text += line("context", value(config, "max_position_embeddings"));
  if (all_tensors) {
    for (const models::TensorInfo& tensor : weights.tensors)
      text += line("tensor",
                   fmt::format("{:<8}  {:>9}  {} [{}]", tensor.format, human_bytes(tensor.bytes),
                               tensor.name, fmt::join(tensor.shape, ", ")));
  } else {
    for (const auto& [name, total] : totals(weights))
      text += line("encoding", encoding_text(name, total));
  }
  if (!weights.footprint) return text + line("cannot run", weights.problem);
  const engine::Footprint& needed = *weights.footprint;
  text += line("memory", fmt::format("{} for weights, {} per token of context",
                                     human_bytes(needed.model.weight_bytes),
                                     human_bytes(needed.model.kv_bytes_per_token)));
  if (needed.model.context_length > 0)
    text += line("", fmt::format("{} with one full context of {}",
                                 human_bytes(needed.model.weight_bytes + needed.cache_bytes),
                                 needed.model.context_length));
  return text;
}

std::string tokenizer_text(const ShownTokenizer& tokenizer) {
  std::string text =
      line("tokenizer",
           fmt::format("{}, {} tokens; loads in {:.2f} s into {}", tokenizer.kind, tokenizer.tokens,
                       tokenizer.load_s, human_bytes(tokenizer.memory_bytes)));
  for (const auto& [name, token] : tokenizer.files.special_tokens)
    text += line("", fmt::format("{} {}", name, dump_json(Json(token))));
  if (tokenizer.files.add_bos) text += line("", "raw prompts begin with bos_token");
  if (tokenizer.files.chat_templates.empty()) text += line("template", "none");
  for (const models::ChatTemplate& one : tokenizer.files.chat_templates)
    text += line("template", fmt::format("{}, {} bytes", one.name, one.text.size()));
  return text;
}

Json weights_json(const ShownWeights& weights) {
  Json tensors = Json::array();
  for (const models::TensorInfo& tensor : weights.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"encoding", tensor.format},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  Json json{
      {"config", weights.config}, {"weight_bytes", weights.bytes}, {"tensors", std::move(tensors)}};
  if (weights.footprint) {
    json["parameters"] = weights.footprint->parameters;
    Json matrices = Json::array();
    for (const engine::StoredMatrix& matrix : weights.footprint->matrices)
      matrices.push_back({{"name", matrix.name},
                          {"encoding", models::to_string(matrix.format)},
                          {"shape", {matrix.rows, matrix.cols}},
                          {"bytes", matrix.bytes}});
    json["matrices"] = std::move(matrices);
    json["memory"] = {{"weight_bytes", weights.footprint->model.weight_bytes},
                      {"cache_bytes_per_token", weights.footprint->model.kv_bytes_per_token},
                      {"context_length", weights.footprint->model.context_length},
                      {"cache_bytes_of_context", weights.footprint->cache_bytes}};
  } else {
    json["problem"] = weights.problem;
  }
  return json;
}

int show(const Invocation& invocation, const std::string& name, bool all_tensors, bool as_json) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  if (const auto chosen = choose_isa(context->settings); !chosen) return report(chosen.error());
  const auto path = model_path(*context, name);
  if (!path) return report(path.error());
  const auto model = examine_model(*path, {.precision = precision_of(context->settings)});
  if (!model) return report(model.error());
  fmt::print("{}", as_json ? pretty_json(to_json(*model)) + "\n" : model_text(*model, all_tensors));
  return 0;
}

}  // namespace

Json to_json(const ShownModel& model) {
  Json json{{"path", model.path.string()}};
  if (model.weights) {
    json.update(weights_json(*model.weights));
  } else {
    json["weights_problem"] = model.weights_problem;
  }
  if (model.tokenizer) {
    const ShownTokenizer& shown = *model.tokenizer;
    Json templates = Json::object();
    for (const models::ChatTemplate& one : shown.files.chat_templates)
      templates[one.name] = one.text;
    Json special = Json::object();
    for (const auto& [name, token] : shown.files.special_tokens) special[name] = token;
    json["tokenizer"] = {{"tokens", shown.tokens},
                         {"kind", shown.kind},
                         {"load_s", shown.load_s},
                         {"memory_bytes", shown.memory_bytes},
                         {"special_tokens", std::move(special)},
                         {"add_bos", shown.files.add_bos}};
    json["chat_templates"] = std::move(templates);
  } else {
    json["tokenizer_problem"] = model.tokenizer_problem;
  }
  return json;
}

std::string model_text(const ShownModel& model, bool all_tensors) {
  std::string text = line("files", model.path.string());
  text += model.weights ? weights_text(*model.weights, all_tensors)
                        : line("no weights", model.weights_problem);
  text += model.tokenizer ? tokenizer_text(*model.tokenizer)
                          : line("no tokenizer", model.tokenizer_problem);
  return text;
}

void add_show(CommandTree& tree) {
  struct Flags {
    std::string model;
    bool tensors = false, as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  Invocation& invocation = tree.invocation();
  tree.add("show", "Show what a model is and what it needs")
      .required("MODEL", flags->model,
                "a model of the store, a file or a directory; a vocabulary is enough")
      .flag("--tensors", flags->tensors, "every tensor instead of a sum by encoding")
      .flag("--json", flags->as_json, "as a JSON object, with every tensor and template")
      .settings({"cpu-isa", "cpu-precision"})
      .footer(
          "Nothing of the weights is read: this is quick for a model of any size.\n\n"
          "Examples:\n"
          "  exo show smollm2\n"
          "  exo show model.gguf --tensors\n"
          "  exo show ./Llama-3.2-1B-4bit --json | jq .memory")
      .runs([&invocation, flags] {
        return show(invocation, flags->model, flags->tensors, flags->as_json);
      });
}

}  // namespace exo::app
