#include "engine/shard.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>
#include <variant>

#include "core/bytes.h"
#include "core/overloaded.h"

namespace exo::engine {
namespace {

struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

// Part `part` of `parts` of `count` things, as even as can be.
Range part_of(std::size_t count, std::size_t part, std::size_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// A rank's place among those that share its layers.
struct Place {
  std::size_t part = 0, parts = 1;
};

void take_rows(LinearSpec& module, Range rows) {
  module.row_slice = {.first = rows.begin, .total = module.rows};
  module.rows = rows.size();
}
void take_cols(LinearSpec& module, Range cols, const Place& place) {
  module.col_slice = {.first = cols.begin, .total = module.cols};
  module.cols = cols.size();
  if (place.part > 0) module.bias = false;  // added once
}

// Whole key-value heads with their query heads where there are enough; else several ranks have the
// same key-value head, and each some of its query heads.
Result<std::pair<Range, Range>> heads_of(const AttentionSpec& whole, const Place& place) {
  const std::size_t group = whole.heads / whole.kv_heads;
  if (whole.kv_heads >= place.parts) {
    const Range kv = part_of(whole.kv_heads, place.part, place.parts);
    return std::pair(Range{kv.begin * group, kv.end * group}, kv);
  }
  const auto kv_of = [&](std::size_t part) { return part * whole.kv_heads / place.parts; };
  const std::size_t kv = kv_of(place.part);
  Place among;  // the ranks with this key-value head
  among.parts = 0;
  for (std::size_t part = 0; part < place.parts; ++part) {
    if (part == place.part) among.part = among.parts;
    among.parts += kv_of(part) == kv ? 1 : 0;
  }
  const Range own = part_of(group, among.part, among.parts);
  if (own.size() == 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} heads cannot be split over {} ranks", whole.heads, place.parts));
  }
  return std::pair(Range{kv * group + own.begin, kv * group + own.end}, Range{kv, kv + 1});
}

using Unit = std::function<Result<std::size_t>(const LinearSpec&)>;

Result<AttentionSpec> shard_of(AttentionSpec spec, const Place& place, const Unit& unit) {
  EXO_TRY(const auto heads, heads_of(spec, place));
  const auto rows = [&](Range range) {
    return Range{range.begin * spec.head_dim, range.end * spec.head_dim};
  };
  EXO_TRY(const std::size_t together, unit(spec.o));
  const Range wanted = rows(heads.first);
  // o's columns begin and end with whole groups; what the neighbours have of them meets zeros.
  const Range cols{wanted.begin / together * together,
                   std::min(round_up(wanted.end, together), spec.o.cols)};
  spec.o_first = wanted.begin - cols.begin;
  take_rows(spec.q, wanted);
  take_rows(spec.k, rows(heads.second));
  take_rows(spec.v, rows(heads.second));
  take_cols(spec.o, cols, place);
  spec.heads = heads.first.size();
  spec.kv_heads = heads.second.size();
  return spec;
}

Result<GatedSpec> shard_of(GatedSpec spec, const Place& place, const Unit& unit) {
  EXO_TRY(const std::size_t together, unit(spec.down));
  const std::size_t units = divide_up(spec.down.cols, together);
  const Range part = part_of(units, place.part, place.parts);
  const Range cols{part.begin * together, std::min(part.end * together, spec.down.cols)};
  if (cols.size() == 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} columns in groups of {} cannot be split over {} ranks",
                            spec.down.cols, together, place.parts));
  }
  take_rows(spec.gate, cols);
  take_rows(spec.up, cols);
  take_cols(spec.down, cols, place);
  return spec;
}

Result<LayerSpec> shard_of(LayerSpec layer, const Place& place, const Unit& unit) {
  EXO_TRY(layer.mixer, std::visit(
                           [&](auto& mixer) -> Result<Mixer> {
                             EXO_TRY(auto own, shard_of(std::move(mixer), place, unit));
                             return Mixer(std::move(own));
                           },
                           layer.mixer));
  EXO_TRY(layer.feed_forward, std::visit(
                                  [&](auto& feed_forward) -> Result<FeedForward> {
                                    EXO_TRY(auto own,
                                            shard_of(std::move(feed_forward), place, unit));
                                    return FeedForward(std::move(own));
                                  },
                                  layer.feed_forward));
  return layer;
}

}  // namespace

Layout tensor_layout(std::size_t layers, std::size_t ranks) {
  Stage stage{.end_layer = layers};
  for (std::size_t rank = 0; rank < ranks; ++rank) stage.ranks.push_back(rank);
  return {.stages = {std::move(stage)}};
}

Layout pipeline_layout(std::size_t layers, std::size_t ranks) {
  Layout layout;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Range range = part_of(layers, rank, ranks);
    layout.stages.push_back({.first_layer = range.begin, .end_layer = range.end, .ranks = {rank}});
  }
  return layout;
}

Result<void> check_layout(const Layout& layout, std::size_t layers) {
  const auto wrong = [](std::string what) {
    return fail(ErrorCode::kInvalidInput, "a model cannot be split so: " + std::move(what));
  };
  std::size_t next = 0;
  std::set<std::size_t> ranks;
  std::size_t count = 0;
  for (const Stage& stage : layout.stages) {
    if (stage.first_layer != next || stage.end_layer <= stage.first_layer)
      return wrong(fmt::format("a stage has no layers, or they do not follow layer {}", next));
    if (stage.ranks.empty()) return wrong("a stage has no rank");
    next = stage.end_layer;
    ranks.insert(stage.ranks.begin(), stage.ranks.end());
    count += stage.ranks.size();
  }
  if (next != layers) return wrong(fmt::format("{} of {} layers are placed", next, layers));
  if (ranks.size() != count || *ranks.rbegin() != count - 1) return wrong("a rank is missing");
  if (layout.stages.front().ranks.front() != 0) return wrong("rank 0 is not the first");
  return {};
}

std::size_t column_unit(const models::WeightFormat& format) {
  using Kind = models::WeightFormat::Kind;
  switch (format.kind) {
    case Kind::kDense:
      return 16;  // whole words of what packing moves at a time
    case Kind::kMlxAffine:
      return format.group_size;
    case Kind::kFloat8Squares:
      return 128;
    case Kind::kNvfp4:
      return 64;
    case Kind::kQ2K:
    case Kind::kQ3K:
    case Kind::kQ4K:
    case Kind::kQ5K:
    case Kind::kQ6K:
    case Kind::kIq4Xs:
      return 256;
    default:
      return 32;
  }
}

Result<DecoderSpec> shard_of(const DecoderSpec& whole, const Layout& layout, std::size_t rank,
                             const Unit& unit) {
  EXO_TRY(check_layout(layout, whole.layers.size()));
  const auto stage = std::ranges::find_if(layout.stages, [&](const Stage& s) {
    return std::ranges::find(s.ranks, rank) != s.ranks.end();
  });
  if (stage == layout.stages.end())
    return fail(ErrorCode::kInvalidInput, fmt::format("rank {} has no place", rank));
  const auto own = std::ranges::find(stage->ranks, rank) - stage->ranks.begin();
  const Place place{.part = static_cast<std::size_t>(own), .parts = stage->ranks.size()};

  DecoderSpec spec = whole;
  spec.ends.embeds = stage == layout.stages.begin();
  spec.ends.has_head = std::next(stage) == layout.stages.end();
  spec.layers.clear();
  for (std::size_t i = stage->first_layer; i < stage->end_layer; ++i) {
    if (place.parts == 1) {
      spec.layers.push_back(whole.layers[i]);
      continue;
    }
    EXO_TRY(LayerSpec layer, shard_of(whole.layers[i], place, unit));
    spec.layers.push_back(std::move(layer));
  }
  if (place.parts == 1) return spec;
  const Range tokens = part_of(whole.vocab_size, place.part, place.parts);
  spec.ends.vocabulary = {.first = tokens.begin, .total = whole.vocab_size};
  spec.ends.held = tokens.size();
  if (spec.head) take_rows(*spec.head, tokens);
  return spec;
}

}  // namespace exo::engine
