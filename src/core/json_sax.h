// Builds a Json document from parser events and stops at a depth limit; shared by json.cc and
// cbor.cc only.
#pragma once

#include <cstddef>
#include <limits>

#include <nlohmann/json.hpp>

#include "core/json.h"

namespace exo {

class BoundedBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  BoundedBuilder(Json& root, std::size_t max_depth)
      : nlohmann::detail::json_sax_dom_parser<Json>(root, /*allow_exceptions_=*/true),
        max_depth_(max_depth) {}

  bool start_object(std::size_t size) { return descend() && Base::start_object(bounded(size)); }
  bool start_array(std::size_t size) { return descend() && Base::start_array(bounded(size)); }
  bool end_object() { return ascend() && Base::end_object(); }
  bool end_array() { return ascend() && Base::end_array(); }

  bool too_deep() const { return too_deep_; }

 private:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

  // A count that a CBOR header only claims must not be trusted; "unknown" means one at a time.
  static std::size_t bounded(std::size_t) { return std::numeric_limits<std::size_t>::max(); }

  bool descend() {
    too_deep_ = ++depth_ > max_depth_;
    return !too_deep_;
  }
  bool ascend() {
    --depth_;
    return true;
  }

  std::size_t max_depth_;
  std::size_t depth_ = 0;
  bool too_deep_ = false;
};

}  // namespace exo
