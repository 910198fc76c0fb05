#include "models/safetensors.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/json.h"

namespace exo::models {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxDimensions = 16;

struct DTypeSize {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array kDTypes = {
    DTypeSize{"F64", 8},  DTypeSize{"F32", 4},     DTypeSize{"F16", 2},     DTypeSize{"BF16", 2},
    DTypeSize{"I64", 8},  DTypeSize{"I32", 4},     DTypeSize{"I16", 2},     DTypeSize{"I8", 1},
    DTypeSize{"U64", 8},  DTypeSize{"U32", 4},     DTypeSize{"U16", 2},     DTypeSize{"U8", 1},
    DTypeSize{"BOOL", 1}, DTypeSize{"F8_E4M3", 1}, DTypeSize{"F8_E5M2", 1}, DTypeSize{"F8_E8M0", 1},
    DTypeSize{"C64", 8},
};

std::optional<std::size_t> dtype_bytes(std::string_view name) {
  for (const DTypeSize& type : kDTypes) {
    if (type.name == name) return type.bytes;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> unsigned_number(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  return std::nullopt;  // a negative number
}

std::unexpected<Error> damaged(std::string_view what, const std::string& subject) {
  return fail(ErrorCode::kInvalidInput, fmt::format("damaged safetensors file: {}", what), subject);
}

Result<SafetensorsTensor> read_tensor(const std::string& name, const Json& entry,
                                      std::span<const std::byte> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return damaged("an entry lacks dtype, shape or data_offsets", name);
  }
  const Json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  SafetensorsTensor tensor;
  if (!dtype.is_string() || !shape.is_array() || shape.size() > kMaxDimensions)
    return damaged("an entry is malformed", name);
  tensor.dtype = dtype.get<std::string>();
  const auto size = dtype_bytes(tensor.dtype);
  if (!size) return damaged(fmt::format("unknown dtype \"{}\"", tensor.dtype), name);
  std::uint64_t bytes = *size;
  for (const Json& dimension : shape) {
    const auto length = unsigned_number(dimension);
    const auto product = length ? checked_mul<std::uint64_t>(bytes, *length) : std::nullopt;
    if (!product) return damaged("a shape is impossible", name);
    bytes = *product;
    tensor.shape.push_back(*length);
  }
  const bool two = offsets.is_array() && offsets.size() == 2;
  const auto begin = two ? unsigned_number(offsets[0]) : std::nullopt,
             end = two ? unsigned_number(offsets[1]) : std::nullopt;
  if (!begin || !end || *begin > *end) return damaged("data_offsets are malformed", name);
  if (*end > data.size()) {
    return fail(ErrorCode::kInvalidInput,
                "incomplete download or corrupt file: a tensor lies beyond its end", name);
  }
  if (*end - *begin != bytes) return damaged("a tensor's size disagrees with its shape", name);
  tensor.data = data.subspan(*begin, bytes);
  return tensor;
}

Result<void> check_overlaps(const std::map<std::string, SafetensorsTensor, std::less<>>& tensors) {
  std::vector<std::pair<const std::byte*, const std::string*>> begins;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.data.empty()) begins.emplace_back(tensor.data.data(), &name);
  }
  std::ranges::sort(begins);
  for (std::size_t i = 1; i < begins.size(); ++i) {
    const SafetensorsTensor& previous = tensors.find(*begins[i - 1].second)->second;
    if (begins[i - 1].first + previous.data.size() > begins[i].first)
      return damaged("tensors overlap", *begins[i].second);
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  EXO_TRY(MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const auto length = read_at<std::uint64_t>(bytes, 0);
  if (!length) return damaged("it is shorter than its own length field", path);
  if (*length == 0 || *length > kMaxHeaderBytes)
    return damaged("its header's length is impossible", path);
  if (*length > bytes.size() - 8) {
    return fail(ErrorCode::kInvalidInput,
                "incomplete download or corrupt file: the header is longer than the file", path);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, *length);
  const auto header = parse_json(text);
  if (!header || !header->is_object()) return damaged("its header is no JSON object", path);

  SafetensorsFile result{.file = std::move(file), .tensors = {}};
  const auto data = result.file.bytes().subspan(8 + *length);
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    EXO_TRY(SafetensorsTensor tensor, read_tensor(name, entry, data));
    result.tensors.emplace(name, std::move(tensor));
  }
  EXO_TRY(check_overlaps(result.tensors));
  return result;
}

}  // namespace exo::models
