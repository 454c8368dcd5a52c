// Conditions of filters on ids, nested objects, texts and places, wire -> engine.
#include "server/rpc/convert_filter.h"

#include <utility>

#include "base/status.h"
#include "server/rpc/convert.h"

namespace lightcone::server {
namespace {

GeoPoint PointOf(const v1::GeoPoint& point) { return {point.lon(), point.lat()}; }

absl::StatusOr<FilterNode> HasIdOf(const v1::FilterHasId& has_id, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kHasId;
  node.ids.reserve(has_id.ids_size());
  for (int i = 0; i < has_id.ids_size(); ++i) {
    LC_ASSIGN_OR_RETURN(ItemId id, FromWire(has_id.ids(i), [&] { return StrCat(path, ".ids[", i, "]"); }));
    node.ids.push_back(std::move(id));
  }
  return node;
}

absl::StatusOr<FilterNode> NestedOf(const v1::FilterNested& nested, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kNested;
  node.field = nested.field();
  if (!nested.has_filter()) return InvalidField(StrCat(path, ".filter"), "not set", "a condition");
  LC_ASSIGN_OR_RETURN(FilterNode child, FromWire(nested.filter(), StrCat(path, ".filter")));
  node.children.push_back(std::move(child));
  return node;
}

absl::StatusOr<FilterNode> TextOf(const v1::FilterText& text, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kText;
  node.field = text.field();
  switch (text.match_case()) {
    case v1::FilterText::kWords:
      node.match = FilterNode::TextMatch::kWords;
      node.text = text.words();
      return node;
    case v1::FilterText::kPrefix:
      node.match = FilterNode::TextMatch::kPrefix;
      node.text = text.prefix();
      return node;
    case v1::FilterText::kAnyWord:
      node.match = FilterNode::TextMatch::kAnyWord;
      node.text = text.any_word();
      return node;
    case v1::FilterText::kPhrase:
      node.match = FilterNode::TextMatch::kPhrase;
      node.text = text.phrase();
      return node;
    case v1::FilterText::MATCH_NOT_SET:
      break;
  }
  return InvalidField(StrCat(path, ".match"), "not set", "one of words, prefix, any_word, phrase");
}

absl::StatusOr<FilterNode> RadiusOf(const v1::FilterGeoRadius& radius, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kGeoRadius;
  node.field = radius.field();
  if (!radius.has_center()) return InvalidField(StrCat(path, ".center"), "not set", "a place");
  node.center = PointOf(radius.center());
  node.radius = radius.radius();
  return node;
}

absl::StatusOr<FilterNode> BoxOf(const v1::FilterGeoBox& box, const std::string& path) {
  FilterNode node;
  node.kind = FilterNode::Kind::kGeoBox;
  node.field = box.field();
  if (!box.has_top_left()) return InvalidField(StrCat(path, ".top_left"), "not set", "a place");
  if (!box.has_bottom_right()) return InvalidField(StrCat(path, ".bottom_right"), "not set", "a place");
  node.top_left = PointOf(box.top_left());
  node.bottom_right = PointOf(box.bottom_right());
  return node;
}

FilterNode PolygonOf(const v1::FilterGeoPolygon& polygon) {
  FilterNode node;
  node.kind = FilterNode::Kind::kGeoPolygon;
  node.field = polygon.field();
  const auto add = [&node](const v1::GeoRing& from) {
    GeoRing ring;
    ring.points.reserve(from.points_size());
    for (const v1::GeoPoint& point : from.points()) ring.points.push_back(PointOf(point));
    node.rings.push_back(std::move(ring));
  };
  add(polygon.exterior());
  for (const v1::GeoRing& hole : polygon.interiors()) add(hole);
  return node;
}

}  // namespace

absl::StatusOr<FilterNode> ConditionOf(const v1::Filter& filter, const std::string& path) {
  switch (filter.kind_case()) {
    case v1::Filter::kHasId:
      return HasIdOf(filter.has_id(), StrCat(path, ".has_id"));
    case v1::Filter::kNested:
      return NestedOf(filter.nested(), StrCat(path, ".nested"));
    case v1::Filter::kText:
      return TextOf(filter.text(), StrCat(path, ".text"));
    case v1::Filter::kGeoRadius:
      return RadiusOf(filter.geo_radius(), StrCat(path, ".geo_radius"));
    case v1::Filter::kGeoBox:
      return BoxOf(filter.geo_box(), StrCat(path, ".geo_box"));
    case v1::Filter::kGeoPolygon:
      return PolygonOf(filter.geo_polygon());
    default:
      return InvalidField(path, "not set",
                          "one of and, or, not, equals, in, range, exists, is_null, is_empty, values_count, has_id, "
                          "nested, text, geo_radius, geo_box, geo_polygon");
  }
}

}  // namespace lightcone::server
