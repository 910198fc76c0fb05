#include "models/card.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>
#include <toml++/toml.h>

namespace exo::models {
namespace {

std::unexpected<Error> bad_value(std::string_view key, std::string_view what) {
  return fail(ErrorCode::kInvalidInput, fmt::format("model card: {}", what), std::string(key));
}

// Reads keys out of one table and remembers which, so that unknown ones can be named.
class TableReader {
 public:
  explicit TableReader(const toml::table& table) : table_(table) {}

  Result<void> text(std::string_view key, std::string& out, bool required = false) {
    return read(key, required, "must be a string", [&](const toml::node& node) {
      const auto value = node.value<std::string>();
      if (value && node.is_string()) out = *value;
      return value && node.is_string();
    });
  }
  Result<void> flag(std::string_view key, bool& out, bool required = false) {
    return read(key, required, "must be true or false", [&](const toml::node& node) {
      if (node.is_boolean()) out = *node.value<bool>();
      return node.is_boolean();
    });
  }
  Result<void> texts(std::string_view key, std::vector<std::string>& out, bool required = false) {
    return read(key, required, "must be a list of strings", [&](const toml::node& node) {
      const toml::array* array = node.as_array();
      if (array == nullptr ||
          !std::ranges::all_of(*array, [](const toml::node& item) { return item.is_string(); }))
        return false;
      out.clear();
      for (const toml::node& item : *array) out.push_back(*item.value<std::string>());
      return true;
    });
  }
  template <typename T>
  Result<void> whole(std::string_view key, T& out, std::int64_t low, bool required = false) {
    return read(key, required, fmt::format("must be an integer of at least {}", low),
                [&](const toml::node& node) {
                  const auto value = node.is_integer() ? node.value<std::int64_t>() : std::nullopt;
                  if (!value || *value < low ||
                      static_cast<std::uint64_t>(*value) >
                          std::uint64_t{std::numeric_limits<std::int64_t>::max()})
                    return false;
                  if constexpr (sizeof(T) < 8) {
                    if (*value > std::int64_t{std::numeric_limits<std::int32_t>::max()})
                      return false;
                  }
                  out = static_cast<T>(*value);
                  return true;
                });
  }
  template <typename T>
  Result<void> optional_number(std::string_view key, std::optional<T>& out, T low, T high) {
    return read(key, false, fmt::format("must be a number from {} to {}", low, high),
                [&](const toml::node& node) {
                  if (node.is_number()) out = node.value<T>();
                  return out && *out >= low && *out <= high;  // not with NaN
                });
  }
  const toml::table* table(std::string_view key) {
    seen_.insert(std::string(key));
    return table_[key].as_table();
  }
  bool has(std::string_view key) const { return table_.contains(key); }

  // The first key that nobody asked for is an error.
  Result<void> finish(std::string_view prefix) const {
    for (const auto& [key, node] : table_) {
      if (!seen_.contains(std::string(key.str())))
        return bad_value(fmt::format("{}{}", prefix, key.str()), "unknown key");
    }
    return {};
  }

 private:
  template <typename Take>
  Result<void> read(std::string_view key, bool required, std::string_view what, Take take) {
    seen_.insert(std::string(key));
    const toml::node* node = table_.get(key);
    if (node == nullptr)
      return required ? Result<void>(bad_value(key, "the key is missing")) : Result<void>();
    if (!take(*node)) return bad_value(key, what);
    return {};
  }

  const toml::table& table_;
  std::set<std::string> seen_;
};

// The ranges are a request's own (api.md 5.1), since the values stand in for a request's.
Result<SamplingDefaults> read_sampling(TableReader& reader) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  SamplingDefaults sampling;
  EXO_TRY(reader.optional_number("temperature", sampling.temperature, 0.0, 2.0));
  EXO_TRY(reader.optional_number("top_p", sampling.top_p, 0.0, 1.0));
  EXO_TRY(reader.optional_number("min_p", sampling.min_p, 0.0, 1.0));
  EXO_TRY(reader.optional_number("repetition_penalty", sampling.repetition_penalty, 1e-6, 1e6));
  EXO_TRY(reader.optional_number("presence_penalty", sampling.presence_penalty, -2.0, 2.0));
  EXO_TRY(reader.optional_number("frequency_penalty", sampling.frequency_penalty, -2.0, 2.0));
  EXO_TRY(reader.optional_number("top_k", sampling.top_k, std::int64_t{-1}, kAny));
  if (sampling.top_k == -1) sampling.top_k = 0;
  return sampling;
}

Result<void> read_sampling_tables(const toml::table& table, Card& card) {
  TableReader reader(table);
  EXO_TRY(card.sampling, read_sampling(reader));
  for (const char* mode : {"thinking", "non_thinking"}) {
    const toml::table* inner = reader.table(mode);
    if (inner == nullptr) continue;
    TableReader inner_reader(*inner);
    EXO_TRY(SamplingDefaults sampling, read_sampling(inner_reader));
    EXO_TRY(inner_reader.finish(fmt::format("sampling_defaults.{}.", mode)));
    card.sampling_by_mode.emplace(mode, sampling);
  }
  return reader.finish("sampling_defaults.");
}

Result<void> read_storage_size(TableReader& reader, Card& card) {
  const toml::table* size = reader.table("storage_size");
  if (size == nullptr) return bad_value("storage_size", "the table is missing");
  TableReader size_reader(*size);
  EXO_TRY(size_reader.whole("in_bytes", card.storage_bytes, 0, /*required=*/true));
  return size_reader.finish("storage_size.");
}

Result<Card> read_card(const toml::table& table) {
  Card card;
  TableReader reader(table);
  EXO_TRY(reader.text("model_id", card.id.value, /*required=*/true));
  EXO_TRY(read_storage_size(reader, card));
  EXO_TRY(reader.whole("n_layers", card.n_layers, 1, /*required=*/true));
  EXO_TRY(reader.whole("hidden_size", card.hidden_size, 1, /*required=*/true));
  EXO_TRY(reader.flag("supports_tensor", card.supports_tensor, /*required=*/true));
  EXO_TRY(reader.texts("tasks", card.tasks, /*required=*/true));
  EXO_TRY(reader.texts("backends", card.backends));
  if (reader.has("num_key_value_heads")) {
    std::uint32_t heads = 0;
    EXO_TRY(reader.whole("num_key_value_heads", heads, 1));
    card.num_key_value_heads = heads;
  }
  EXO_TRY(reader.text("family", card.family));
  EXO_TRY(reader.text("quantization", card.quantization));
  EXO_TRY(reader.text("base_model", card.base_model));
  EXO_TRY(reader.texts("capabilities", card.capabilities));
  EXO_TRY(reader.whole("context_length", card.context_length, 0));
  EXO_TRY(reader.text("reasoning_dialect", card.reasoning_dialect));
  EXO_TRY(reader.flag("uses_cfg", card.uses_cfg));
  EXO_TRY(reader.flag("trust_remote_code", card.trust_remote_code));
  if (card.trust_remote_code)
    return bad_value("trust_remote_code", "nothing from a repository is executed; remove the key");
  if (const toml::table* sampling = reader.table("sampling_defaults"))
    EXO_TRY(read_sampling_tables(*sampling, card));
  EXO_TRY(reader.finish(""));
  return card;
}

void put_sampling(toml::table& table, const SamplingDefaults& sampling) {
  const auto put = [&](const char* key, const auto& value) {
    if (value) table.insert(key, *value);
  };
  put("temperature", sampling.temperature);
  put("top_p", sampling.top_p);
  put("min_p", sampling.min_p);
  put("top_k", sampling.top_k);
  put("repetition_penalty", sampling.repetition_penalty);
  put("presence_penalty", sampling.presence_penalty);
  put("frequency_penalty", sampling.frequency_penalty);
}

// The format that holds most bytes of the weights, as people write it: "4bit", "Q4_1", "bf16".
std::string dominant_quantization(const Json& config, const Checkpoint& checkpoint) {
  const auto block = config.find("quantization");
  if (block != config.end() && block->is_object() &&
      block->value("bits", Json()).is_number_integer()) {
    return fmt::format("{}bit", (*block)["bits"].get<int>());
  }
  std::map<std::string, std::size_t> bytes;
  for (const TensorInfo& tensor : checkpoint.tensors()) bytes[tensor.format] += tensor.bytes;
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most == bytes.end() ? "" : most->first;
}

// A count; 0 for anything else.
std::uint64_t whole_number(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number_integer()) return 0;
  return found->is_number_unsigned()
             ? found->get<std::uint64_t>()
             : static_cast<std::uint64_t>(std::max<std::int64_t>(0, found->get<std::int64_t>()));
}

}  // namespace

Result<Card> parse_card(std::string_view text) {
  try {
    return read_card(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return bad_value(fmt::format("line {}", error.source().begin.line), error.description());
  }
}

std::string to_toml(const Card& card) {
  const auto list = [](const std::vector<std::string>& items) {
    toml::array array;
    for (const std::string& item : items) array.push_back(item);
    return array;
  };
  toml::table table{
      {"model_id", card.id.value},
      {"n_layers", std::int64_t{card.n_layers}},
      {"hidden_size", std::int64_t{card.hidden_size}},
      {"supports_tensor", card.supports_tensor},
      {"tasks", list(card.tasks)},
      {"backends", list(card.backends)},
      {"family", card.family},
      {"quantization", card.quantization},
      {"base_model", card.base_model},
      {"capabilities", list(card.capabilities)},
      {"context_length", static_cast<std::int64_t>(card.context_length)},
      {"reasoning_dialect", card.reasoning_dialect},
      {"uses_cfg", card.uses_cfg},
      {"storage_size", toml::table{{"in_bytes", static_cast<std::int64_t>(card.storage_bytes)}}}};
  if (card.num_key_value_heads)
    table.insert("num_key_value_heads", std::int64_t{*card.num_key_value_heads});
  toml::table sampling;
  put_sampling(sampling, card.sampling);
  for (const auto& [mode, defaults] : card.sampling_by_mode) {
    toml::table inner;
    put_sampling(inner, defaults);
    sampling.insert(mode, std::move(inner));
  }
  if (!sampling.empty()) table.insert("sampling_defaults", std::move(sampling));
  std::ostringstream out;
  out << table << '\n';
  return out.str();
}

Result<Card> derive_card(const ModelId& id, const Checkpoint& checkpoint) {
  const Json& config = checkpoint.config();
  Card card{.id = id, .storage_bytes = checkpoint.weight_bytes()};
  const std::uint64_t layers = whole_number(config, "num_hidden_layers"),
                      hidden = whole_number(config, "hidden_size");
  constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (layers == 0 || layers > kMax)
    return fail(ErrorCode::kInvalidInput,
                "the configuration does not say how many layers there are", "num_hidden_layers");
  if (hidden == 0 || hidden > kMax)
    return fail(ErrorCode::kInvalidInput, "the configuration does not say how wide a layer is",
                "hidden_size");
  card.n_layers = static_cast<std::uint32_t>(layers);
  card.hidden_size = static_cast<std::uint32_t>(hidden);
  if (const std::uint64_t heads = whole_number(config, "num_key_value_heads");
      heads > 0 && heads <= kMax) {
    card.num_key_value_heads = static_cast<std::uint32_t>(heads);
  }
  card.family =
      config.value("model_type", Json()).is_string() ? config["model_type"].get<std::string>() : "";
  card.quantization = dominant_quantization(config, checkpoint);
  card.context_length = whole_number(config, "max_position_embeddings");
  if (checkpoint.has_token("</think>")) card.capabilities.emplace_back("thinking");
  return card;
}

}  // namespace exo::models
