#include "server/engine/filter/filter.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/engine/filter/instant.h"
#include "server/engine/filter/numbers.h"
#include "server/engine/filter/payload_path.h"
#include "server/engine/filter/text_match.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 32;
constexpr size_t kRingPointsMin = 4;  // corners of a triangle, and the first of them again

std::optional<Number> NumberOf(const Json& value) {
  if (value.is_number_unsigned()) return server::NumberOf(value.get<uint64_t>());
  if (value.is_number_integer()) return server::NumberOf(value.get<int64_t>());
  if (value.is_number_float()) return server::NumberOf(value.get<double>());
  return std::nullopt;
}

std::partial_ordering Compare(const Json& value, const FilterValue& with) {
  if (const auto* text = std::get_if<std::string>(&with)) {
    if (!value.is_string()) return std::partial_ordering::unordered;
    return CompareTexts(value.get_ref<const std::string&>(), *text);
  }
  if (const auto* truth = std::get_if<bool>(&with)) {
    if (!value.is_boolean() || value.get<bool>() != *truth) return std::partial_ordering::unordered;
    return std::partial_ordering::equivalent;
  }
  const auto number = NumberOf(value);
  if (!number) return std::partial_ordering::unordered;
  if (const auto* integer = std::get_if<int64_t>(&with)) return Compare(*number, server::NumberOf(*integer));
  return Compare(*number, server::NumberOf(std::get<double>(with)));
}

bool LeafMatches(const FilterNode& node, const Json& value) {
  switch (node.kind) {
    case FilterNode::Kind::kExists:
      return true;
    case FilterNode::Kind::kIsNull:
      return value.is_null();
    case FilterNode::Kind::kEquals:
    case FilterNode::Kind::kIn:
      for (const FilterValue& v : node.values) {
        if (Compare(value, v) == 0) return true;
      }
      return false;
    default:
      return (!node.greater || Compare(value, *node.greater) > 0) &&
             (!node.greater_equal || Compare(value, *node.greater_equal) >= 0) &&
             (!node.less || Compare(value, *node.less) < 0) &&
             (!node.less_equal || Compare(value, *node.less_equal) <= 0);
  }
}

bool CountMatches(const FilterNode& node, const Json& payload) {
  uint64_t count = 0;
  VisitEnds(payload, node.keys, [&](const Json& end) {
    count += ValuesOfEnd(end);
    return false;
  });
  return count >= node.count_least && count <= node.count_most;
}

bool TextMatches(const FilterNode& node, const Json& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  switch (node.match) {
    case FilterNode::TextMatch::kWords:
      return HasAllWords(text, node.words);
    case FilterNode::TextMatch::kPrefix:
      return text.starts_with(node.text);
    case FilterNode::TextMatch::kAnyWord:
      return HasAnyWord(text, node.words);
    case FilterNode::TextMatch::kPhrase:
      return HasPhrase(text, node.words);
  }
  return false;
}

bool PlaceMatches(const FilterNode& node, const Json& value) {
  const std::optional<GeoPoint> place = PlaceIn(value);
  if (!place) return false;
  if (node.kind == FilterNode::Kind::kGeoPolygon) return IsInPolygon(*place, node.rings);
  return node.kind == FilterNode::Kind::kGeoBox ? IsInBox(*place, node.top_left, node.bottom_right)
                                                : GeoDistance(*place, node.center) <= node.radius;
}

bool Evaluate(const FilterNode& node, const FilterSubject& subject, const Json& payload) {
  switch (node.kind) {
    case FilterNode::Kind::kAnd:
      for (const FilterNode& child : node.children) {
        if (!Evaluate(child, subject, payload)) return false;
      }
      return true;
    case FilterNode::Kind::kOr:
      for (const FilterNode& child : node.children) {
        if (Evaluate(child, subject, payload)) return true;
      }
      return false;
    case FilterNode::Kind::kNot:
      return !Evaluate(node.children[0], subject, payload);
    case FilterNode::Kind::kValuesCount:
      return CountMatches(node, payload);
    case FilterNode::Kind::kHasId:
      LC_DCHECK(subject.id != nullptr);
      return subject.id != nullptr && std::binary_search(node.ids.begin(), node.ids.end(), *subject.id);
    case FilterNode::Kind::kNested:
      return VisitPath(payload, node.keys, [&](const Json& value) {
        return value.is_object() && Evaluate(node.children[0], subject, value);
      });
    case FilterNode::Kind::kText:
      return VisitPath(payload, node.keys, [&](const Json& value) { return TextMatches(node, value); });
    case FilterNode::Kind::kGeoRadius:
    case FilterNode::Kind::kGeoBox:
    case FilterNode::Kind::kGeoPolygon:
      return VisitPath(payload, node.keys, [&](const Json& value) { return PlaceMatches(node, value); });
    default:
      if (node.field == kGenerationField) return LeafMatches(node, Json(subject.generation));
      if (node.field == kUncertaintyField) return LeafMatches(node, Json(subject.uncertainty));
      return VisitPath(payload, node.keys, [&](const Json& value) { return LeafMatches(node, value); });
  }
}

absl::Status CheckValue(const FilterValue& value, const std::string& where) {
  if (const double* d = std::get_if<double>(&value); d != nullptr && !std::isfinite(*d)) {
    return InvalidField(where, std::isnan(*d) ? "nan" : (*d > 0 ? "inf" : "-inf"), "a finite number");
  }
  return absl::OkStatus();
}

// Sets the keys of a path into the payload.
absl::Status ParseField(FilterNode* node, const std::string& where) {
  const std::string& field = node->field;
  if (!field.starts_with('$')) {
    LC_ASSIGN_OR_RETURN(node->keys, ParsePayloadPath(field, where + ".field"));
    node->field = PathText(node->keys);
    return absl::OkStatus();
  }
  const bool of_payload = node->kind == FilterNode::Kind::kIsNull || node->kind >= FilterNode::Kind::kValuesCount;
  if (of_payload) return InvalidField(where + ".field", field, "a path into the payload");
  if (field == kGenerationField || field == kUncertaintyField) return absl::OkStatus();
  return InvalidField(where + ".field", field, "a path into the payload, $generation or $uncertainty");
}

absl::Status CheckRange(const FilterNode& node, const std::string& where) {
  const std::pair<const std::optional<FilterValue>*, std::string_view> bounds[] = {
      {&node.greater, ".greater"},
      {&node.greater_equal, ".greater_equal"},
      {&node.less, ".less"},
      {&node.less_equal, ".less_equal"}};
  const FilterValue* first = nullptr;
  for (const auto& [bound, name] : bounds) {
    if (!bound->has_value()) continue;
    const FilterValue& value = **bound;
    const std::string bound_name = StrCat(where, name);
    LC_RETURN_IF_ERROR(CheckValue(value, bound_name));
    if (std::holds_alternative<bool>(value)) return InvalidField(bound_name, "a truth value", "a number or a text");
    if (first != nullptr && std::holds_alternative<std::string>(*first) != std::holds_alternative<std::string>(value)) {
      return InvalidField(bound_name, "of another kind than the other bound",
                          "bounds that are all numbers or all texts");
    }
    first = &value;
  }
  if (first == nullptr) {
    return InvalidField(where, "without a bound", "at least one of greater, greater_equal, less, less_equal");
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const GeoPoint& point, const std::string& where) {
  if (!(point.lon >= -180 && point.lon <= 180)) {
    return InvalidField(where + ".lon", StrCat(point.lon), "-180 .. 180 degrees");
  }
  if (!(point.lat >= -90 && point.lat <= 90)) {
    return InvalidField(where + ".lat", StrCat(point.lat), "-90 .. 90 degrees");
  }
  return absl::OkStatus();
}

absl::Status CheckGeo(const FilterNode& node, const std::string& where) {
  if (node.kind == FilterNode::Kind::kGeoRadius) {
    LC_RETURN_IF_ERROR(CheckPlace(node.center, where + ".center"));
    if (node.radius > 0 && std::isfinite(node.radius)) return absl::OkStatus();
    return InvalidField(where + ".radius", StrCat(node.radius), "metres, above 0");
  }
  LC_RETURN_IF_ERROR(CheckPlace(node.top_left, where + ".top_left"));
  LC_RETURN_IF_ERROR(CheckPlace(node.bottom_right, where + ".bottom_right"));
  if (node.top_left.lat >= node.bottom_right.lat) return absl::OkStatus();
  return InvalidField(where + ".top_left.lat", StrCat(node.top_left.lat),
                      StrCat(node.bottom_right.lat, ", that of bottom_right, or more"));
}

// Sets the words of a condition on texts.
absl::Status ParseWords(FilterNode* node, const std::string& where) {
  if (node->match == FilterNode::TextMatch::kPrefix) {
    return node->text.empty() ? InvalidField(where + ".prefix", "empty", "at least one byte") : absl::OkStatus();
  }
  node->words = WordsOf(node->text);
  if (node->words.size() > kFilterWordsMax) {
    return InvalidField(where, StrCat(node->words.size(), " words"), StrCat("at most ", kFilterWordsMax));
  }
  if (node->match != FilterNode::TextMatch::kPhrase) {
    std::sort(node->words.begin(), node->words.end());
    node->words.erase(std::unique(node->words.begin(), node->words.end()), node->words.end());
  }
  if (!node->words.empty()) return absl::OkStatus();
  const std::string_view name = node->match == FilterNode::TextMatch::kWords     ? ".words"
                                : node->match == FilterNode::TextMatch::kAnyWord ? ".any_word"
                                                                                 : ".phrase";
  return InvalidField(StrCat(where, name), StrCat("'", node->text, "'"), "at least one word of letters and digits");
}

struct Checker {
  int nodes = 0;
  size_t values = 0, ids = 0, points = 0;
  bool payload = false, uncertainty = false, generation = false, id = false;

  absl::Status Check(FilterNode& node, const std::string& where, int depth) {
    if (depth > kDepthMax) return InvalidField(where, StrCat("nested ", depth, " deep"), StrCat("at most ", kDepthMax));
    if (++nodes > kFilterNodesMax) {
      return InvalidField("filter", StrCat("of more than ", kFilterNodesMax, " nodes"),
                          StrCat("at most ", kFilterNodesMax));
    }
    switch (node.kind) {
      case FilterNode::Kind::kAnd:
        return Children(node, where + ".and", depth);
      case FilterNode::Kind::kOr:
        return Children(node, where + ".or", depth);
      case FilterNode::Kind::kNot:
        if (node.children.size() != 1) {
          return InvalidField(where + ".not", StrCat(node.children.size(), " conditions"), "one");
        }
        return Check(node.children[0], where + ".not", depth + 1);
      case FilterNode::Kind::kEquals:
        return Leaf(node, where + ".equals");
      case FilterNode::Kind::kIn:
        return Leaf(node, where + ".in");
      case FilterNode::Kind::kRange:
        return Leaf(node, where + ".range");
      case FilterNode::Kind::kExists:
        return Leaf(node, where + ".exists");
      case FilterNode::Kind::kIsNull:
        return Leaf(node, where + ".is_null");
      case FilterNode::Kind::kValuesCount:
        return Leaf(node, where + ".values_count");
      case FilterNode::Kind::kHasId:
        return Ids(node, where + ".has_id.ids");
      case FilterNode::Kind::kNested:
        return Nested(node, where + ".nested", depth);
      case FilterNode::Kind::kText:
        LC_RETURN_IF_ERROR(Leaf(node, where + ".text"));
        return ParseWords(&node, where + ".text");
      case FilterNode::Kind::kGeoRadius:
        LC_RETURN_IF_ERROR(Leaf(node, where + ".geo_radius"));
        return CheckGeo(node, where + ".geo_radius");
      case FilterNode::Kind::kGeoBox:
        LC_RETURN_IF_ERROR(Leaf(node, where + ".geo_box"));
        return CheckGeo(node, where + ".geo_box");
      case FilterNode::Kind::kGeoPolygon:
        LC_RETURN_IF_ERROR(Leaf(node, where + ".geo_polygon"));
        return Rings(node, where + ".geo_polygon");
    }
    return InvalidField(where, "of an unknown kind",
                        "and, or, not, equals, in, range, exists, is_null, values_count, has_id, nested, text, "
                        "geo_radius, geo_box, geo_polygon");
  }

  absl::Status Rings(FilterNode& node, const std::string& where) {
    if (node.rings.empty()) return InvalidField(where + ".exterior", "not set", "a closed ring of places");
    for (size_t i = 0; i < node.rings.size(); ++i) {
      GeoRing& ring = node.rings[i];
      const std::string name = StrCat(where, i == 0 ? ".exterior" : StrCat(".interiors[", i - 1, "]"), ".points");
      points += ring.points.size();
      if (points > kFilterPointsMax) {
        return InvalidField(name, StrCat(ring.points.size(), " long"),
                            StrCat("at most ", kFilterPointsMax, " points of polygons in a filter"));
      }
      for (size_t j = 0; j < ring.points.size(); ++j) {
        LC_RETURN_IF_ERROR(CheckPlace(ring.points[j], StrCat(name, "[", j, "]")));
      }
      if (ring.points.size() < kRingPointsMin || ring.points.front() != ring.points.back()) {
        return InvalidField(
            name,
            StrCat(ring.points.size(), " places, ",
                   ring.points.empty() || ring.points.front() == ring.points.back() ? "closed"
                                                                                    : "the last is not the first"),
            StrCat("at least ", kRingPointsMin, " places, the last of them the first"));
      }
      Prepare(&ring);
    }
    return absl::OkStatus();
  }

  absl::Status Ids(FilterNode& node, const std::string& where) {
    id = true;
    if (node.ids.empty()) return InvalidField(where, "empty", "at least one id");
    ids += node.ids.size();
    if (ids > kFilterValuesMax) {
      return InvalidField(where, StrCat(node.ids.size(), " long"),
                          StrCat("at most ", kFilterValuesMax, " ids in a filter"));
    }
    std::sort(node.ids.begin(), node.ids.end());
    return absl::OkStatus();
  }

  absl::Status Nested(FilterNode& node, const std::string& where, int depth) {
    LC_RETURN_IF_ERROR(ParseField(&node, where));
    payload = true;
    if (node.children.size() != 1) {
      return InvalidField(where + ".filter", StrCat(node.children.size(), " conditions"), "one");
    }
    return Check(node.children[0], where + ".filter", depth + 1);
  }

  absl::Status Children(FilterNode& node, const std::string& where, int depth) {
    for (size_t i = 0; i < node.children.size(); ++i) {
      LC_RETURN_IF_ERROR(Check(node.children[i], StrCat(where, "[", i, "]"), depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status Leaf(FilterNode& node, const std::string& where) {
    LC_RETURN_IF_ERROR(ParseField(&node, where));
    if (node.field == kUncertaintyField) uncertainty = true;
    if (node.field == kGenerationField) generation = true;
    if (node.field[0] != '$') payload = true;
    if (node.kind == FilterNode::Kind::kRange) return CheckRange(node, where);
    if (node.kind != FilterNode::Kind::kEquals && node.kind != FilterNode::Kind::kIn) return absl::OkStatus();
    if (node.kind == FilterNode::Kind::kEquals && node.values.size() != 1) {
      return InvalidField(where + ".value", node.values.empty() ? "missing" : "several values", "one value");
    }
    if (node.values.empty()) return InvalidField(where + ".values", "empty", "at least one value");
    values += node.values.size();
    if (values > kFilterValuesMax) {
      return InvalidField(where + ".values", StrCat(node.values.size(), " long"),
                          StrCat("at most ", kFilterValuesMax, " values in a filter"));
    }
    for (size_t i = 0; i < node.values.size(); ++i) {
      LC_RETURN_IF_ERROR(CheckValue(
          node.values[i], node.kind == FilterNode::Kind::kIn ? StrCat(where, ".values[", i, "]") : where + ".value"));
    }
    return absl::OkStatus();
  }
};

}  // namespace

bool MatchesGeneration(const FilterNode& leaf, uint32_t generation) {
  LC_DCHECK(leaf.field == kGenerationField);
  return LeafMatches(leaf, Json(generation));
}

absl::StatusOr<Filter> Filter::Make(FilterNode root) {
  Checker checker;
  LC_RETURN_IF_ERROR(checker.Check(root, "filter", 1));
  Filter filter;
  filter.root_ = std::move(root);
  filter.needs_payload_ = checker.payload;
  filter.needs_uncertainty_ = checker.uncertainty;
  filter.needs_generation_ = checker.generation;
  filter.needs_id_ = checker.id;
  return filter;
}

bool Filter::Matches(const FilterSubject& subject) const {
  // The write checked the payload. One that does not parse has no fields.
  Json payload;
  if (needs_payload_ && subject.payload_json != nullptr) {
    payload = Json::parse(*subject.payload_json, nullptr, /*allow_exceptions=*/false);
    if (!payload.is_object()) payload = Json::object();
  }
  return Evaluate(root_, subject, payload);
}

}  // namespace lightcone::server
