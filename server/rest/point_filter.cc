#include "server/rest/point_filter.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/engine/filter/instant.h"
#include "server/rest/point_text.h"
#include "server/rest/point_vectors.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using Kind = FilterNode::Kind;

FilterNode GroupNode(Kind kind, std::vector<FilterNode> children = {}) {
  FilterNode node;
  node.kind = kind;
  node.children = std::move(children);
  return node;
}

FilterNode FieldNode(Kind kind, std::string field) {
  FilterNode node;
  node.kind = kind;
  node.field = std::move(field);
  return node;
}

FilterNode Not(FilterNode node) { return GroupNode(Kind::kNot, {std::move(node)}); }

absl::StatusOr<FilterValue> MatchValueFrom(const json& value, const std::string& field) {
  if (value.is_string()) return FilterValue(value.get<std::string>());
  if (value.is_boolean()) return FilterValue(value.get<bool>());
  const bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
  if (fits) return FilterValue(value.get<int64_t>());
  return InvalidField(field, ShownJson(value),
                      StrCat("a text, true, false, or an integer of ", INT64_MIN, " .. ", INT64_MAX));
}

absl::StatusOr<FilterNode> AnyOf(const json& values, const std::string& key, const std::string& field) {
  if (!values.is_array()) return InvalidField(field, ShownJson(values), "an array of texts or integers");
  if (values.empty()) return GroupNode(Kind::kOr);
  FilterNode node = FieldNode(Kind::kIn, key);
  for (const json& value : values) {
    LC_ASSIGN_OR_RETURN(FilterValue one, MatchValueFrom(value, StrCat(field, "[", node.values.size(), "]")));
    node.values.push_back(std::move(one));
  }
  return node;
}

constexpr const char* kPlaces[] = {"geo_radius", "geo_bounding_box", "geo_polygon"};

absl::StatusOr<std::string> KeyOf(const Fields& fields) {
  LC_ASSIGN_OR_RETURN(const json* const key, fields.Require("key", "a path into the payload"));
  if (!key->is_string()) return InvalidField(fields.At("key"), ShownJson(*key), "a path into the payload");
  return PayloadPathFrom(key->get<std::string>(), fields.At("key"));
}

absl::StatusOr<FilterNode> HasIdFrom(const json& given, const std::string& path) {
  LC_ASSIGN_OR_RETURN(std::vector<ItemId> ids, PointIdsFrom(given, path));
  if (ids.empty()) return GroupNode(Kind::kOr);
  FilterNode node = GroupNode(Kind::kHasId);
  node.ids = std::move(ids);
  return node;
}

// The vector that a search finds a point by is of the named generation.
absl::StatusOr<FilterNode> HasVectorFrom(const json& given, VectorNames names, const std::string& path) {
  if (!given.is_string()) return InvalidField(path, ShownJson(given), "the name of a vector");
  LC_ASSIGN_OR_RETURN(const uint32_t generation, names(given.get<std::string>(), path));
  if (generation == 0) return GroupNode(Kind::kAnd);  // Every point has a vector.
  FilterNode node = FieldNode(Kind::kEquals, std::string(kGenerationField));
  node.values.emplace_back(int64_t{generation});
  return node;
}

absl::StatusOr<FilterNode> NestedFrom(const json& given, VectorNames names, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields nested, Fields::Of(given, path));
  LC_ASSIGN_OR_RETURN(std::string key, KeyOf(nested));
  LC_ASSIGN_OR_RETURN(const json* const filter, nested.Require("filter", "a filter"));
  LC_ASSIGN_OR_RETURN(FilterNode child, PointFilterFrom(*filter, names, nested.At("filter")));
  FilterNode node = FieldNode(Kind::kNested, std::move(key));
  node.children.push_back(std::move(child));
  return node;
}

absl::StatusOr<GeoPoint> PlaceFrom(const json& given, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields place, Fields::Of(given, path));
  LC_ASSIGN_OR_RETURN(const std::optional<double> lon, place.Number("lon"));
  LC_ASSIGN_OR_RETURN(const std::optional<double> lat, place.Number("lat"));
  if (lon && lat && IsPlace({*lon, *lat})) return GeoPoint{*lon, *lat};
  return InvalidField(path, "no place", "lon of -180 .. 180 and lat of -90 .. 90");
}

absl::StatusOr<GeoPoint> CornerFrom(const Fields& geo, const char* name) {
  LC_ASSIGN_OR_RETURN(const json* const given, geo.Require(name, "{lon, lat}"));
  return PlaceFrom(*given, geo.At(name));
}

absl::StatusOr<GeoRing> RingFrom(const json& given, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields ring, Fields::Of(given, path));
  LC_ASSIGN_OR_RETURN(const json* const points, ring.Require("points", "an array of {lon, lat}"));
  if (!points->is_array()) return InvalidField(ring.At("points"), ShownJson(*points), "an array of {lon, lat}");
  GeoRing out;
  for (const json& point : *points) {
    LC_ASSIGN_OR_RETURN(out.points.emplace_back(),
                        PlaceFrom(point, StrCat(ring.At("points"), "[", out.points.size(), "]")));
  }
  return out;
}

absl::StatusOr<FilterNode> PolygonFrom(const Fields& geo, FilterNode node) {
  LC_ASSIGN_OR_RETURN(const json* const exterior, geo.Require("exterior", "{points}"));
  LC_ASSIGN_OR_RETURN(node.rings.emplace_back(), RingFrom(*exterior, geo.At("exterior")));
  const json* interiors = geo.Find("interiors");
  if (interiors == nullptr) return node;
  if (!interiors->is_array()) return InvalidField(geo.At("interiors"), ShownJson(*interiors), "an array of {points}");
  for (const json& hole : *interiors) {
    LC_ASSIGN_OR_RETURN(node.rings.emplace_back(),
                        RingFrom(hole, StrCat(geo.At("interiors"), "[", node.rings.size() - 1, "]")));
  }
  return node;
}

absl::StatusOr<FilterNode> GeoFrom(const json& given, const std::string& key, std::string_view name,
                                   const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields geo, Fields::Of(given, path));
  if (name == "geo_polygon") return PolygonFrom(geo, FieldNode(Kind::kGeoPolygon, key));
  const bool radius = name == "geo_radius";
  FilterNode node = FieldNode(radius ? Kind::kGeoRadius : Kind::kGeoBox, key);
  if (radius) {
    LC_ASSIGN_OR_RETURN(node.center, CornerFrom(geo, "center"));
    LC_ASSIGN_OR_RETURN(const std::optional<double> metres, geo.Number("radius"));
    if (!metres) return InvalidField(geo.At("radius"), "missing", "metres");
    node.radius = *metres;
  } else {
    LC_ASSIGN_OR_RETURN(node.top_left, CornerFrom(geo, "top_left"));
    LC_ASSIGN_OR_RETURN(node.bottom_right, CornerFrom(geo, "bottom_right"));
  }
  return node;
}

absl::StatusOr<FilterNode> MatchFrom(const json& match, const std::string& key, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(match, path));
  if (const json* value = fields.Find("value")) {
    FilterNode node = FieldNode(Kind::kEquals, key);
    LC_ASSIGN_OR_RETURN(FilterValue one, MatchValueFrom(*value, fields.At("value")));
    node.values.push_back(std::move(one));
    return node;
  }
  if (const json* any = fields.Find("any")) return AnyOf(*any, key, fields.At("any"));
  if (const json* except = fields.Find("except")) {
    LC_ASSIGN_OR_RETURN(FilterNode among, AnyOf(*except, key, fields.At("except")));
    return GroupNode(Kind::kAnd, {FieldNode(Kind::kExists, key), Not(std::move(among))});
  }
  for (const auto& [name, how] :
       {std::pair("text", FilterNode::TextMatch::kWords), std::pair("text_any", FilterNode::TextMatch::kAnyWord),
        std::pair("phrase", FilterNode::TextMatch::kPhrase)}) {
    if (fields.Find(name) == nullptr) continue;
    FilterNode node = FieldNode(Kind::kText, key);
    node.match = how;
    LC_ASSIGN_OR_RETURN(node.text, fields.Text(name));
    return node;
  }
  return InvalidField(path, "without a known member", "one of value, any, except, text, text_any, phrase");
}

// A bound of a range, a number or an instant.
absl::StatusOr<std::optional<FilterValue>> BoundFrom(const Fields& range, const char* name) {
  const json* bound = range.Find(name);
  if (bound == nullptr) return std::optional<FilterValue>();
  if (bound->is_number_float()) return std::optional<FilterValue>(bound->get<double>());
  const bool fits = bound->is_number_integer() && !(bound->is_number_unsigned() && bound->get<uint64_t>() > INT64_MAX);
  if (fits) return std::optional<FilterValue>(bound->get<int64_t>());
  if (bound->is_string() && ParseInstant(bound->get_ref<const std::string&>())) {
    return std::optional<FilterValue>(bound->get<std::string>());
  }
  return InvalidField(range.At(name), ShownJson(*bound),
                      StrCat("a number, integers to ", INT64_MAX, ", or a time like 2024-05-01T12:30:00Z (RFC 3339)"));
}

absl::StatusOr<FilterNode> RangeFrom(const json& range, const std::string& key, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(range, path));
  FilterNode node = FieldNode(Kind::kRange, key);
  LC_ASSIGN_OR_RETURN(node.greater, BoundFrom(fields, "gt"));
  LC_ASSIGN_OR_RETURN(node.greater_equal, BoundFrom(fields, "gte"));
  LC_ASSIGN_OR_RETURN(node.less, BoundFrom(fields, "lt"));
  LC_ASSIGN_OR_RETURN(node.less_equal, BoundFrom(fields, "lte"));
  if (node.greater || node.greater_equal || node.less || node.less_equal) return node;
  return InvalidField(path, "without a bound", "at least one of gt, gte, lt, lte");
}

absl::StatusOr<FilterNode> ValuesCountFrom(const json& counts, const std::string& key, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(counts, path));
  LC_ASSIGN_OR_RETURN(const int64_t above, fields.Whole("gt", -1, 0, INT64_MAX - 1));
  LC_ASSIGN_OR_RETURN(const int64_t least, fields.Whole("gte", 0, 0, INT64_MAX));
  LC_ASSIGN_OR_RETURN(const int64_t below, fields.Whole("lt", INT64_MAX, 0, INT64_MAX));
  LC_ASSIGN_OR_RETURN(const int64_t most, fields.Whole("lte", INT64_MAX, 0, INT64_MAX));
  FilterNode node = FieldNode(Kind::kValuesCount, key);
  node.count_least = static_cast<uint64_t>(std::max(above + 1, least));
  const int64_t last = fields.Find("lt") == nullptr ? most : std::min(below - 1, most);
  if (last < 0) return GroupNode(Kind::kOr);  // No count is below 0.
  if (fields.Find("lt") != nullptr || fields.Find("lte") != nullptr) node.count_most = static_cast<uint64_t>(last);
  return node;
}

absl::StatusOr<FilterNode> EmptyOrNull(const Fields& condition, const char* name) {
  const bool empty = std::string_view(name) == "is_empty";
  const json& given = *condition.Find(name);
  bool wanted = true;
  std::string key;
  if (given.is_boolean()) {
    wanted = given.get<bool>();
    LC_ASSIGN_OR_RETURN(key, KeyOf(condition));
  } else {
    LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(given, condition.At(name)));
    LC_ASSIGN_OR_RETURN(key, KeyOf(fields));
  }
  FilterNode node = FieldNode(empty ? Kind::kValuesCount : Kind::kIsNull, std::move(key));
  if (empty) node.count_most = 0;
  return wanted ? std::move(node) : Not(std::move(node));
}

// Of conditions that stand alone, another one beside is refused: it would be lost, and the filter may be one of a
// deletion.
absl::Status CheckAlone(const Fields& condition) {
  constexpr const char* kAll[] = {"has_vector", "has_id",       "nested",     "is_empty",         "is_null",    "match",
                                  "range",      "values_count", "geo_radius", "geo_bounding_box", "geo_polygon"};
  constexpr size_t kAlone = 5;  // the first ones
  for (size_t i = 0; i < kAlone; ++i) {
    if (condition.Find(kAll[i]) == nullptr) continue;
    for (size_t j = 0; j < std::size(kAll); ++j) {
      if (j == i) continue;
      LC_RETURN_IF_ERROR(condition.Refuse(kAll[j], StrCat("beside ", kAll[i], "; make two conditions of them")));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<FilterNode> ConditionFrom(const json& json_condition, VectorNames names, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields condition, Fields::Of(json_condition, path));
  for (const char* group : {"must", "should", "must_not", "min_should"}) {
    if (condition.Find(group) != nullptr) return PointFilterFrom(json_condition, names, path);
  }
  LC_RETURN_IF_ERROR(CheckAlone(condition));
  if (const json* name = condition.Find("has_vector")) return HasVectorFrom(*name, names, condition.At("has_vector"));
  if (const json* ids = condition.Find("has_id")) return HasIdFrom(*ids, condition.At("has_id"));
  if (const json* nested = condition.Find("nested")) return NestedFrom(*nested, names, condition.At("nested"));
  for (const char* name : {"is_empty", "is_null"}) {
    if (condition.Find(name) != nullptr) return EmptyOrNull(condition, name);
  }
  if (condition.Find("key") == nullptr) {
    return InvalidField(
        path, "without a known member",
        "key with a condition; has_id; has_vector; nested; is_empty; is_null; must, should, must_not, min_should");
  }
  LC_ASSIGN_OR_RETURN(const std::string key, KeyOf(condition));
  std::vector<FilterNode> all;
  if (const json* match = condition.Find("match")) {
    LC_ASSIGN_OR_RETURN(FilterNode node, MatchFrom(*match, key, condition.At("match")));
    all.push_back(std::move(node));
  }
  if (const json* range = condition.Find("range")) {
    LC_ASSIGN_OR_RETURN(FilterNode node, RangeFrom(*range, key, condition.At("range")));
    all.push_back(std::move(node));
  }
  if (const json* counts = condition.Find("values_count")) {
    LC_ASSIGN_OR_RETURN(FilterNode node, ValuesCountFrom(*counts, key, condition.At("values_count")));
    all.push_back(std::move(node));
  }
  for (const char* name : kPlaces) {
    const json* geo = condition.Find(name);
    if (geo == nullptr) continue;
    LC_ASSIGN_OR_RETURN(FilterNode node, GeoFrom(*geo, key, name, condition.At(name)));
    all.push_back(std::move(node));
  }
  if (all.empty()) {
    return InvalidField(path, "without a condition",
                        "one of match, range, values_count, geo_radius, geo_bounding_box, geo_polygon");
  }
  return all.size() == 1 ? std::move(all[0]) : GroupNode(Kind::kAnd, std::move(all));
}

// One condition or an array of them.
absl::StatusOr<std::vector<FilterNode>> ConditionsFrom(const json& conditions, VectorNames names,
                                                       const std::string& path) {
  std::vector<FilterNode> nodes;
  if (conditions.is_object()) {
    LC_ASSIGN_OR_RETURN(FilterNode node, ConditionFrom(conditions, names, path));
    nodes.push_back(std::move(node));
    return nodes;
  }
  if (!conditions.is_array())
    return InvalidField(path, ShownJson(conditions), "a condition, or an array of conditions");
  if (conditions.size() > static_cast<size_t>(kFilterNodesMax)) {
    return InvalidField(path, StrCat(conditions.size(), " conditions"), StrCat("at most ", kFilterNodesMax));
  }
  for (const json& one : conditions) {
    LC_ASSIGN_OR_RETURN(FilterNode node, ConditionFrom(one, names, StrCat(path, "[", nodes.size(), "]")));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// Conditions of a node; long lists count as several, because choices copy them.
size_t NodesOf(const FilterNode& node) {
  constexpr size_t kListed = 64;
  size_t listed = node.values.size() + node.ids.size();
  for (const GeoRing& ring : node.rings) listed += ring.points.size();
  size_t nodes = 1 + listed / kListed;
  for (const FilterNode& child : node.children) nodes += NodesOf(child);
  return nodes;
}

// Every choice of `count` of some conditions, as long as these have few nodes together.
class Choices {
 public:
  Choices(const std::vector<FilterNode>& from, size_t count) : from_(from) {
    for (const FilterNode& node : from) sizes_.push_back(NodesOf(node));
    all_ = Add(0, count, 0);
  }

  // false: there are too many.
  bool all() const { return all_; }
  std::vector<FilterNode> Take() { return std::move(choices_); }

 private:
  // Adds each choice of `count` from `begin` on, beside the chosen ones, which have so many nodes.
  bool Add(size_t begin, size_t count, size_t nodes) {
    if (nodes_ + nodes >= static_cast<size_t>(kFilterNodesMax)) return false;
    if (count == 0) {
      std::vector<FilterNode> choice;
      for (const size_t i : chosen_) choice.push_back(from_[i]);
      choices_.push_back(GroupNode(Kind::kAnd, std::move(choice)));
      nodes_ += nodes + 1;
      return true;
    }
    for (size_t i = begin; i + count <= from_.size(); ++i) {
      chosen_.push_back(i);
      if (!Add(i + 1, count - 1, nodes + sizes_[i])) return false;
      chosen_.pop_back();
    }
    return true;
  }

  const std::vector<FilterNode>& from_;
  std::vector<size_t> sizes_, chosen_;
  std::vector<FilterNode> choices_;
  size_t nodes_ = 0;
  bool all_ = false;
};

absl::StatusOr<FilterNode> MinShouldFrom(const json& min_should, VectorNames names, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(min_should, path));
  LC_ASSIGN_OR_RETURN(const json* const conditions, fields.Require("conditions", "an array of conditions"));
  LC_RETURN_IF_ERROR(fields.Require("min_count", "a whole number").status());
  LC_ASSIGN_OR_RETURN(const int64_t count, fields.Whole("min_count", 0, 0, kFilterNodesMax));
  LC_ASSIGN_OR_RETURN(std::vector<FilterNode> nodes, ConditionsFrom(*conditions, names, fields.At("conditions")));
  if (count == 1) return GroupNode(Kind::kOr, std::move(nodes));
  if (static_cast<size_t>(count) == nodes.size()) return GroupNode(Kind::kAnd, std::move(nodes));
  Choices choices(nodes, static_cast<size_t>(count));
  if (choices.all()) return GroupNode(Kind::kOr, choices.Take());
  return InvalidField(fields.At("min_count"), StrCat(count, " of ", nodes.size(), " conditions"),
                      StrCat("choices of at most ", kFilterNodesMax, " conditions together"));
}

}  // namespace

absl::StatusOr<std::string> PayloadPathFrom(const std::string& path, std::string_view field) {
  std::string out;
  bool quoted = false;  // A quote opens a key at its beginning alone, and an escaped one does not close it.
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '"') quoted = !quoted && (out.empty() || out.back() == '.');
    if (quoted && path[i] == '\\' && i + 1 < path.size()) out.push_back(path[i++]);
    if (quoted || path[i] != '[') {
      out.push_back(path[i]);
      continue;
    }
    if (i + 1 >= path.size() || path[i + 1] != ']') {
      return NotSupported(field, StrCat("'", path.substr(0, 60), "' has an index; '[]' goes through all elements"));
    }
    ++i;
    const bool behind_key = !out.empty() && out.back() != '.';
    const bool at_end = i + 1 >= path.size() || path[i + 1] == '.' || path[i + 1] == '[';
    if (!behind_key || !at_end) {
      return InvalidField(field, StrCat("'", path.substr(0, 60), "'"), "a key with '[]' at its end alone");
    }
  }
  return out;
}

absl::StatusOr<FilterNode> PointFilterFrom(const json& filter, VectorNames names, const std::string& path) {
  LC_ASSIGN_OR_RETURN(const Fields fields, Fields::Of(filter, path));
  // A misspelt member would let every point pass, and the filter may be one of a deletion.
  for (const auto& [name, value] : filter.items()) {
    constexpr std::string_view kMembers[] = {"must", "should", "must_not", "min_should"};
    if (std::find(std::begin(kMembers), std::end(kMembers), name) == std::end(kMembers)) {
      return InvalidField(fields.At(name.substr(0, 60)), "unknown", "must, should, must_not, min_should");
    }
  }
  std::vector<FilterNode> all;
  if (const json* must = fields.Find("must")) {
    LC_ASSIGN_OR_RETURN(all, ConditionsFrom(*must, names, fields.At("must")));
  }
  if (const json* must_not = fields.Find("must_not")) {
    LC_ASSIGN_OR_RETURN(std::vector<FilterNode> nodes, ConditionsFrom(*must_not, names, fields.At("must_not")));
    for (FilterNode& node : nodes) all.push_back(Not(std::move(node)));
  }
  if (const json* should = fields.Find("should")) {
    LC_ASSIGN_OR_RETURN(std::vector<FilterNode> nodes, ConditionsFrom(*should, names, fields.At("should")));
    if (!nodes.empty()) all.push_back(GroupNode(Kind::kOr, std::move(nodes)));
  }
  if (const json* min_should = fields.Find("min_should")) {
    LC_ASSIGN_OR_RETURN(FilterNode node, MinShouldFrom(*min_should, names, fields.At("min_should")));
    all.push_back(std::move(node));
  }
  return all.size() == 1 ? std::move(all[0]) : GroupNode(Kind::kAnd, std::move(all));
}

absl::StatusOr<std::optional<FilterNode>> PointFilterOf(const RestCall& call, const Fields& body) {
  const json* filter = body.Find("filter");
  if (filter == nullptr) return std::optional<FilterNode>();
  GenerationNames names(&call.engine, call.collection());
  const auto find = [&names](const std::string& name, const std::string& field) { return names.Find(name, field); };
  LC_ASSIGN_OR_RETURN(FilterNode node, PointFilterFrom(*filter, find, body.At("filter")));
  return std::optional(std::move(node));
}

}  // namespace lightcone::server
