// Stop strings across tokens.
#include "serving/stop_filter.h"

#include <algorithm>
#include <string_view>

namespace exo::serving {
namespace {

// How long the longest end of `text` is that begins `stop` without being all of it.
std::size_t partial_match(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return size;
  }
  return 0;
}

bool inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

}  // namespace

StopFilter::Output StopFilter::push(std::string text,
                                    std::optional<protocol::TokenChunk::Entry> entry) {
  held_ += text;
  if (entry) entries_.push_back(Held{.end = held_.size(), .entry = *std::move(entry)});
  std::size_t first = std::string::npos;
  std::size_t keep = 0;
  const std::string* match = nullptr;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    if (const std::size_t at = held_.find(stop); at < first) {
      first = at;
      match = &stop;
    }
    keep = std::max(keep, partial_match(held_, stop));
  }
  if (match == nullptr) {
    std::size_t length = held_.size() - keep;
    while (inside_character(held_, length)) --length;
    return Output{.chunk = release(length), .stopped = std::nullopt};
  }
  Output output{.chunk = release(first), .stopped = *match};
  held_.clear();
  entries_.clear();
  return output;
}

protocol::TokenChunk StopFilter::flush() { return release(held_.size()); }

protocol::TokenChunk StopFilter::release(std::size_t length) {
  protocol::TokenChunk chunk;
  chunk.text = held_.substr(0, length);
  held_.erase(0, length);
  // A token travels with the text that it ends in; tokens without text of their own wait for some.
  while (!entries_.empty() && entries_.front().end <= length && !chunk.text.empty()) {
    chunk.logprobs.push_back(std::move(entries_.front().entry));
    entries_.pop_front();
  }
  for (Held& held : entries_) held.end -= std::min(held.end, length);
  return chunk;
}

}  // namespace exo::serving
