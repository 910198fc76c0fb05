// Builds a Json document from parser events and stops at a depth limit; shared by json.cc and
// cbor.cc only.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json.h"

namespace exo {

// The library's own builder looks every key up among all that came before, which lets a document
// of 100 MB keep a thread busy for hours. This one finds keys by hash. Sizes that a CBOR header
// claims are not trusted: elements come one at a time.
class BoundedBuilder {
 public:
  BoundedBuilder(Json& root, std::size_t max_depth) : root_(root), max_depth_(max_depth) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t& value) { return put(std::move(value)); }

  bool start_object(std::size_t) { return start(Json::object()); }
  bool start_array(std::size_t) { return start(Json::array()); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return true;
  }

  template <typename Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  // An array or object that has begun. Its address holds until it ends: only then does its parent
  // grow.
  struct Open {
    Json* json = nullptr;
    std::string key = {};                                      // of the member to come
    std::unordered_map<std::string, std::size_t> places = {};  // of an object with many members
  };
  static constexpr std::size_t kFew = 16;  // so many keys are looked up one by one

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  bool start(Json empty) {
    if (open_.size() == max_depth_) return false;
    Json* json = place(std::move(empty));
    open_.push_back({.json = json});
    return true;
  }

  bool end() {
    open_.pop_back();
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Open& parent = open_.back();
    if (parent.json->is_array()) {
      parent.json->push_back(std::move(value));
      return &parent.json->back();
    }
    // The object's own container, whose operator[] and emplace() would look through all of it.
    auto& members = parent.json->get_ref<Json::object_t&>();
    std::vector<Json::object_t::value_type>& list = members;
    if (list.size() < kFew) return &(members[parent.key] = std::move(value));
    if (parent.places.empty())
      for (std::size_t i = 0; i < list.size(); ++i) parent.places.emplace(list[i].first, i);
    const auto [found, is_new] = parent.places.emplace(parent.key, list.size());
    if (is_new) {
      list.emplace_back(std::move(parent.key), std::move(value));
    } else {
      list[found->second].second = std::move(value);
    }
    return &list[found->second].second;
  }

  Json& root_;
  std::size_t max_depth_;
  std::vector<Open> open_;
};

}  // namespace exo
