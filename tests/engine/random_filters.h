// Random payloads and filters over them: few names and values, so that they meet. Deterministic from the seed.
#pragma once

#include <random>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/engine/engine_testing.h"

namespace lightcone::server {

class RandomCases {
 public:
  using Json = nlohmann::json;
  using Kind = FilterNode::Kind;

  explicit RandomCases(uint32_t seed = 7) : random_(seed) {}

  int Pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  Json Value(int depth) {
    switch (Pick(depth > 0 ? 7 : 5)) {
      case 0:
        return Pick(7) - 3;
      case 1:
        return (Pick(14) - 7) * 0.5;
      case 2:
        return std::string(1, static_cast<char>('a' + Pick(4)));
      case 3:
        return Pick(2) == 0;
      case 4:
        return nullptr;
      case 5: {
        Json array = Json::array();
        for (int i = Pick(4); i > 0; --i) array.push_back(Value(depth - 1));
        return array;
      }
      default:
        return Object(depth - 1);
    }
  }
  Json Object(int depth) {
    Json object = Json::object();
    for (const char* name : {"a", "b", "c", "d.e", ""}) {
      if (Pick(4) != 0) object[name] = Value(depth);
    }
    return object;
  }
  FilterValue Scalar() {
    switch (Pick(4)) {
      case 0:
        return int64_t{Pick(7) - 3};
      case 1:
        return (Pick(14) - 7) * 0.5;
      case 2:
        return std::string(1, static_cast<char>('a' + Pick(4)));
      default:
        return Pick(2) == 0;
    }
  }
  FilterNode Node(int depth) {
    const int kind = Pick(depth > 0 ? 7 : 4);
    const char* fields[] = {"a", "b", "c", "a.b", "b.a", "c.c.a", "\"d.e\"", "\"\".a", "a.\"d.e\""};
    if (kind == 3 && Pick(3) != 0) {
      FilterNode leaf = Leaf(Pick(2) ? Kind::kIsNull : Kind::kValuesCount, fields[Pick(9)]);
      leaf.count_least = static_cast<uint64_t>(Pick(3));
      if (Pick(2)) leaf.count_most = leaf.count_least + static_cast<uint64_t>(Pick(2));
      return leaf;
    }
    if (kind < 4) {
      FilterNode leaf = Leaf(kind == 0   ? Kind::kEquals
                             : kind == 1 ? Kind::kIn
                             : kind == 2 ? Kind::kRange
                                         : Kind::kExists,
                             fields[Pick(9)]);
      if (kind == 0) leaf.values = {Scalar()};
      if (kind == 1) leaf.values = {Scalar(), Scalar()};
      if (kind == 2) {
        const bool text = Pick(3) == 0;
        const auto bound = [&]() -> FilterValue {
          if (text) return std::string(1, static_cast<char>('a' + Pick(4)));
          return (Pick(14) - 7) * 0.5;
        };
        if (Pick(2)) leaf.greater = bound();
        if (Pick(3) == 0) leaf.less = bound();
        if (Pick(3) == 0) leaf.less_equal = bound();
        if (!leaf.greater) leaf.greater_equal = bound();
      }
      return leaf;
    }
    FilterNode node = Branch(kind == 4 ? Kind::kAnd : kind == 5 ? Kind::kOr : Kind::kNot);
    for (int i = node.kind == Kind::kNot ? 1 : Pick(4); i > 0; --i) node.children.push_back(Node(depth - 1));
    return node;
  }

 private:
  std::mt19937 random_;
};

}  // namespace lightcone::server
