// Filters evaluated naively: every value at a path is collected first, then each is asked. Numbers of the random
// payloads are small, so that doubles are exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/engine/api/types.h"
#include "server/engine/filter/filter.h"

namespace lightcone::server {

// The keys of a path, for paths whose quoted keys hold neither quotes nor backslashes.
inline std::vector<std::string> NaiveKeys(const std::string& path) {
  std::vector<std::string> keys(1);
  bool quoted = false;
  for (const char c : path) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == '.' && !quoted) {
      keys.emplace_back();
    } else {
      keys.back() += c;
    }
  }
  return keys;
}
// What the keys from `depth` on lead to. An array at the end is one value.
inline std::vector<nlohmann::json> EndsAt(const nlohmann::json& at, const std::vector<std::string>& keys,
                                          size_t depth = 0) {
  if (depth == keys.size()) return {at};
  std::vector<nlohmann::json> all;
  if (at.is_array()) {
    for (const nlohmann::json& element : at) {
      for (nlohmann::json& v : EndsAt(element, keys, depth)) all.push_back(std::move(v));
    }
  } else if (at.is_object() && at.contains(keys[depth])) {
    all = EndsAt(at[keys[depth]], keys, depth + 1);
  }
  return all;
}
// The values with their elements in place of arrays.
inline std::vector<nlohmann::json> Flat(const std::vector<nlohmann::json>& values) {
  std::vector<nlohmann::json> all;
  for (const nlohmann::json& value : values) {
    if (!value.is_array()) {
      all.push_back(value);
      continue;
    }
    for (nlohmann::json& v : Flat(value.get<std::vector<nlohmann::json>>())) all.push_back(std::move(v));
  }
  return all;
}
inline int Sign(const nlohmann::json& value, const FilterValue& with) {  // 2: not comparable
  if (std::holds_alternative<std::string>(with)) {
    return value.is_string() ? std::clamp(value.get<std::string>().compare(std::get<std::string>(with)), -1, 1) : 2;
  }
  if (std::holds_alternative<bool>(with)) {
    return value.is_boolean() && value.get<bool>() == std::get<bool>(with) ? 0 : 2;
  }
  if (!value.is_number()) return 2;
  const double d =
      std::holds_alternative<double>(with) ? std::get<double>(with) : static_cast<double>(std::get<int64_t>(with));
  return value.get<double>() < d ? -1 : value.get<double>() > d ? 1 : 0;
}
// Whether a payload passes.
inline bool Naive(const FilterNode& node, const nlohmann::json& payload) {
  if (node.kind == FilterNode::Kind::kNot) return !Naive(node.children[0], payload);
  if (node.kind == FilterNode::Kind::kAnd) {
    return std::all_of(node.children.begin(), node.children.end(), [&](auto& c) { return Naive(c, payload); });
  }
  if (node.kind == FilterNode::Kind::kOr) {
    return std::any_of(node.children.begin(), node.children.end(), [&](auto& c) { return Naive(c, payload); });
  }
  const std::vector<nlohmann::json> ends = EndsAt(payload, NaiveKeys(node.field));
  if (node.kind == FilterNode::Kind::kExists) return !ends.empty();
  if (node.kind == FilterNode::Kind::kValuesCount) {
    uint64_t count = 0;
    for (const nlohmann::json& end : ends) count += end.is_null() ? 0 : end.is_array() ? end.size() : 1;
    return node.count_least <= count && count <= node.count_most;
  }
  for (const nlohmann::json& value : Flat(ends)) {
    if (node.kind == FilterNode::Kind::kIsNull && value.is_null()) return true;
    bool holds = node.kind == FilterNode::Kind::kRange;
    for (const FilterValue& v : node.values) holds = holds || Sign(value, v) == 0;
    if (node.greater && Sign(value, *node.greater) != 1) holds = false;
    if (node.greater_equal && !(Sign(value, *node.greater_equal) == 1 || Sign(value, *node.greater_equal) == 0)) {
      holds = false;
    }
    if (node.less && Sign(value, *node.less) != -1) holds = false;
    if (node.less_equal && Sign(value, *node.less_equal) > 0) holds = false;
    if (holds) return true;
  }
  return false;
}

// Whole integers are integers, as facets count them.
inline std::set<FieldValue> NaiveValues(const nlohmann::json& payload, const std::string& field) {
  std::set<FieldValue> values;
  for (const nlohmann::json& value : Flat(EndsAt(payload, NaiveKeys(field)))) {
    if (value.is_string()) values.insert(value.get<std::string>());
    if (value.is_boolean()) values.insert(value.get<bool>());
    if (!value.is_number()) continue;
    const double number = value.get<double>();
    number == std::floor(number) ? values.insert(static_cast<int64_t>(number)) : values.insert(number);
  }
  return values;
}

}  // namespace lightcone::server
