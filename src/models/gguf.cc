#include "models/gguf.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "core/utf8.h"

namespace exo::models {
namespace {

constexpr std::size_t kSmallestTensorRecord = 25, kSmallestPair = 14;
constexpr std::size_t kMaxNameBytes = 63;
constexpr std::uint32_t kMaxDimensions = 4;

// A tensor record as the header has it, before the data section is known.
struct Record {
  std::string name;
  GgufTensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : bytes_(file.bytes()), path_(file.path()) {}

  Result<std::pair<GgufMetadata, std::vector<Record>>> read() {
    EXO_TRY(const auto magic, take<std::uint32_t>());
    if (magic != kGgufMagic) return fail(ErrorCode::kInvalidInput, "not a GGUF file", path_);
    EXO_TRY(const auto version, take<std::uint32_t>());
    if ((version & 0xffffU) == 0)
      return fail(ErrorCode::kUnsupported, "a big-endian GGUF file cannot be read here", path_);
    if (version != 2 && version != 3) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("GGUF version {} is not supported (2 and 3 are)", version), path_);
    }
    EXO_TRY(const auto tensor_count, take<std::uint64_t>());
    EXO_TRY(const auto pair_count, take<std::uint64_t>());
    const std::size_t left = bytes_.size() - offset_;
    if (tensor_count > left / kSmallestTensorRecord || pair_count > left / kSmallestPair) {
      return damaged("it claims more tensors or keys than it can hold");
    }
    auto metadata = GgufMetadata::read(bytes_, pair_count, &offset_);
    if (!metadata) {
      if (metadata.error().subject.empty()) metadata.error().subject = path_;
      return std::unexpected(std::move(metadata.error()));
    }
    std::vector<Record> records;
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
      EXO_TRY(Record record, read_record());
      records.push_back(std::move(record));
    }
    return std::pair(std::move(*metadata), std::move(records));
  }

  std::size_t offset() const { return offset_; }

 private:
  std::unexpected<Error> damaged(std::string_view what, std::string subject = {}) const {
    return fail(ErrorCode::kInvalidInput, fmt::format("damaged GGUF file: {}", what),
                subject.empty() ? path_.string() : std::move(subject));
  }

  template <typename T>
  Result<T> take() {
    const auto value = read_at<T>(bytes_, offset_);
    if (!value) return damaged("the header ends too early");
    offset_ += sizeof(T);
    return *value;
  }

  Result<Record> read_record() {
    Record record;
    EXO_TRY(const auto length, take<std::uint64_t>());
    if (length == 0 || length > kMaxNameBytes || length > bytes_.size() - offset_) {
      return damaged("a tensor's name is empty or too long");
    }
    record.name.assign(reinterpret_cast<const char*>(bytes_.data()) + offset_, length);
    offset_ += length;
    if (!is_valid_utf8(record.name) || record.name.contains('\0'))
      return damaged("a tensor's name is no text");
    EXO_TRY(const auto dimensions, take<std::uint32_t>());
    if (dimensions > kMaxDimensions)
      return damaged("a tensor has more than four dimensions", record.name);
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      EXO_TRY(const auto size, take<std::uint64_t>());
      const auto product = checked_mul(elements, size);
      if (size == 0 || !product || *product >> 63 != 0)
        return damaged("a tensor's shape is impossible", record.name);
      elements = *product;
      record.tensor.shape.insert(record.tensor.shape.begin(), size);
    }
    if (record.tensor.shape.empty()) record.tensor.shape = {1};
    EXO_TRY(const auto number, take<std::uint32_t>());
    record.tensor.type = gguf_type(number);
    if (record.tensor.type == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("GGUF tensor type {} is unknown or was removed", number),
                  record.name);
    }
    const GgufType& type = *record.tensor.type;
    if (record.tensor.shape.back() % type.block != 0) {
      return damaged(fmt::format("rows of {} must be a multiple of {}", type.name, type.block),
                     record.name);
    }
    const auto bytes = checked_mul<std::uint64_t>(elements / type.block, type.bytes);
    if (!bytes) return damaged("a tensor's shape is impossible", record.name);
    record.bytes = *bytes;
    EXO_TRY(record.offset, take<std::uint64_t>());
    return record;
  }

  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
  std::size_t offset_ = 0;
};

Result<std::uint64_t> alignment_of(const GgufMetadata& metadata) {
  if (!metadata.has("general.alignment")) return kGgufAlignment;
  const auto alignment = metadata.integer("general.alignment");
  if (!alignment || *alignment < 1 || *alignment > 65536 ||
      !std::has_single_bit(static_cast<std::uint64_t>(*alignment))) {
    return fail(ErrorCode::kInvalidInput,
                "damaged GGUF file: the alignment is no power of two up to 65536",
                "general.alignment");
  }
  return static_cast<std::uint64_t>(*alignment);
}

// Gives every record its bytes. Errors: kInvalidInput: outside of the file, misaligned or
// overlapping.
Result<std::map<std::string, GgufTensor, std::less<>>> place(const MappedFile& file,
                                                             std::vector<Record> records,
                                                             std::size_t header_end,
                                                             std::uint64_t alignment) {
  std::map<std::string, GgufTensor, std::less<>> tensors;
  if (records.empty()) return tensors;
  const std::uint64_t size = file.bytes().size(),
                      data_start = round_up<std::uint64_t>(header_end, alignment);
  if (data_start > size) {
    return fail(ErrorCode::kInvalidInput,
                "incomplete download or corrupt file: it ends before its data", file.path());
  }
  std::ranges::sort(records, {}, &Record::offset);
  std::uint64_t previous_end = 0;
  for (Record& record : records) {
    if (record.offset % alignment != 0) {
      return fail(ErrorCode::kInvalidInput, "damaged GGUF file: a tensor is not aligned",
                  record.name);
    }
    if (record.offset > size - data_start || record.bytes > size - data_start - record.offset) {
      return fail(ErrorCode::kInvalidInput,
                  "incomplete download or corrupt file: a tensor lies beyond its end", record.name);
    }
    if (record.offset < previous_end)
      return fail(ErrorCode::kInvalidInput, "damaged GGUF file: tensors overlap", record.name);
    previous_end = record.offset + record.bytes;
    record.tensor.data = file.bytes().subspan(data_start + record.offset, record.bytes);
    if (!tensors.emplace(record.name, std::move(record.tensor)).second) {
      return fail(ErrorCode::kInvalidInput, "damaged GGUF file: a tensor occurs twice",
                  record.name);
    }
  }
  return tensors;
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  EXO_TRY(MappedFile file, MappedFile::open(path));
  HeaderReader reader(file);
  EXO_TRY(auto header, reader.read());
  EXO_TRY(const std::uint64_t alignment, alignment_of(header.first));
  EXO_TRY(auto tensors, place(file, std::move(header.second), reader.offset(), alignment));
  return GgufFile{
      .file = std::move(file), .metadata = std::move(header.first), .tensors = std::move(tensors)};
}

Result<std::filesystem::path> gguf_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".gguf") continue;
    const bool later_shard = name.contains("-of-") && !name.contains("-00001-of-");
    if (!later_shard) models.push_back(entry.path());
  }
  if (error) return fail_errno(error.value(), "cannot read the directory", directory);
  if (models.empty()) {
    return fail(ErrorCode::kInvalidInput,
                "no model: neither a config.json nor a .gguf file is in the directory", directory);
  }
  if (models.size() > 1) {
    return fail(ErrorCode::kInvalidInput, "the directory holds several .gguf models: name the file",
                directory);
  }
  return models[0];
}

}  // namespace exo::models
