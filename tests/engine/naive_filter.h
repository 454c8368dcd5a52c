// Filters evaluated naively: every value at a path is collected first, then each is asked. Numbers of the random
// payloads are small, so that doubles are exact.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/engine/filter/filter.h"

namespace lightcone::server {

inline std::vector<nlohmann::json> ValuesAt(const nlohmann::json& at, const std::string& path) {
  if (at.is_array()) {
    std::vector<nlohmann::json> all;
    for (const nlohmann::json& element : at) {
      for (nlohmann::json& v : ValuesAt(element, path)) all.push_back(std::move(v));
    }
    return all;
  }
  if (path.empty()) return {at};
  if (!at.is_object()) return {};
  const auto dot = path.find('.');
  const std::string head = path.substr(0, dot);
  if (!at.contains(head)) return {};
  return ValuesAt(at[head], dot == std::string::npos ? "" : path.substr(dot + 1));
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
  for (const nlohmann::json& value : ValuesAt(payload, node.field)) {
    if (node.kind == FilterNode::Kind::kExists) return true;
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

}  // namespace lightcone::server
