// Conditions on ids, nested objects, texts and places.
#include <set>

#include "engine_testing.h"
#include "server/engine/filter/geo.h"
#include "server/engine/filter/text_match.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using Kind = FilterNode::Kind;
using Match = FilterNode::TextMatch;

FilterNode TextNode(const std::string& field, Match match, const std::string& text) {
  FilterNode node = Leaf(Kind::kText, field);
  node.match = match;
  node.text = text;
  return node;
}

bool Passes(const FilterNode& node, const std::string& json, const ItemId& id = Id(1)) {
  const auto filter = Filter::Make(node);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter.ok() && filter->Matches({&json, 0, 0, &id});
}

TEST(FilterKinds, WordsAreRunsOfLettersAndDigits) {
  EXPECT_EQ(WordsOf("A red-car, 2nd\xe2\x80\x94Größe!"), (std::vector<std::string>{"a", "red", "car", "2nd", "größe"}));
  const std::string json = R"({"t":["A Red sports-car", 5]})";
  EXPECT_TRUE(Passes(TextNode("t", Match::kWords, "car RED"), json));
  EXPECT_FALSE(Passes(TextNode("t", Match::kWords, "car blue"), json));
  EXPECT_TRUE(Passes(TextNode("t", Match::kAnyWord, "blue car"), json));
  EXPECT_FALSE(Passes(TextNode("t", Match::kAnyWord, "ca"), json));
  EXPECT_TRUE(Passes(TextNode("t", Match::kPhrase, "red sports"), json));
  EXPECT_FALSE(Passes(TextNode("t", Match::kPhrase, "red car"), json));
  EXPECT_TRUE(Passes(TextNode("t", Match::kPrefix, "A R"), json));
  EXPECT_FALSE(Passes(TextNode("t", Match::kPrefix, "a r"), json));
}

TEST(FilterKinds, ANestedConditionHoldsForOneObject) {
  FilterNode node = Leaf(Kind::kNested, "parts");
  node.children = {Branch(Kind::kAnd, {Leaf(Kind::kEquals, "kind", {std::string("eye")}),
                                       Leaf(Kind::kEquals, "colour.name", {std::string("blue")})})};
  EXPECT_TRUE(Passes(node, R"({"parts":[{"kind":"nose"},{"kind":"eye","colour":{"name":"blue"}}]})"));
  EXPECT_TRUE(Passes(node, R"({"parts":{"kind":"eye","colour":{"name":"blue"}}})"));
  EXPECT_FALSE(Passes(node, R"({"parts":[{"kind":"eye"},{"kind":"nose","colour":{"name":"blue"}}]})"));
  EXPECT_FALSE(Passes(node, R"({"parts":"eye"})"));
}

TEST(FilterKinds, PlacesAreNearACentreInABoxOrInAPolygon) {
  EXPECT_NEAR(GeoDistance({13.4050, 52.5200}, {2.3522, 48.8566}), 877'464, 100);  // Berlin to Paris
  FilterNode near = Leaf(Kind::kGeoRadius, "at");
  near.center = {13.4050, 52.5200};
  near.radius = 880'000;
  const std::string paris = R"({"at":{"lon":2.3522,"lat":48.8566}})";
  EXPECT_TRUE(Passes(near, paris));
  near.radius = 877'000;
  EXPECT_FALSE(Passes(near, paris));
  EXPECT_FALSE(Passes(near, R"({"at":{"lon":"13","lat":52}})"));
  EXPECT_FALSE(Passes(near, R"({"at":{"lon":13.4,"lat":520}})"));
  FilterNode box = Leaf(Kind::kGeoBox, "at");
  box.top_left = {170, 10};
  box.bottom_right = {-170, -10};
  EXPECT_TRUE(Passes(box, R"({"at":[{"lon":0,"lat":0},{"lon":179,"lat":-10}]})"));
  EXPECT_TRUE(Passes(box, R"({"at":{"lon":-170,"lat":0}})"));
  EXPECT_FALSE(Passes(box, R"({"at":{"lon":0,"lat":0}})"));
  FilterNode triangle = Leaf(Kind::kGeoPolygon, "at");
  triangle.rings = {{{{0, 0}, {10, 0}, {0, 10}, {0, 0}}, {}}, {{{1, 1}, {2, 1}, {1, 2}, {1, 1}}, {}}};
  EXPECT_TRUE(Passes(triangle, R"({"at":[{"lon":50,"lat":0},{"lon":5,"lat":5}]})"));
  EXPECT_FALSE(Passes(triangle, R"({"at":{"lon":5.1,"lat":5}})"));
  EXPECT_FALSE(Passes(triangle, R"({"at":{"lon":1.2,"lat":1.2}})"));
}

TEST(FilterKinds, BadConditionsAreNamed) {
  const auto refused = [](const FilterNode& node, const std::vector<std::string>& texts) {
    EXPECT_TRUE(Fails(Filter::Make(node), Code::kInvalidArgument, texts));
  };
  refused(TextNode("t", Match::kWords, " -"), {"filter.text.words", "at least one word"});
  refused(TextNode("t", Match::kPrefix, ""), {"filter.text.prefix"});
  refused(TextNode("$generation", Match::kPrefix, "a"), {"filter.text.field"});
  FilterNode none;
  none.kind = Kind::kHasId;
  refused(none, {"filter.has_id.ids", "empty"});
  FilterNode many;
  many.kind = Kind::kHasId;
  many.ids.assign(65'537, Id(1));
  refused(many, {"filter.has_id.ids", "65536"});
  refused(Leaf(Kind::kNested, "a"), {"filter.nested.filter", "one"});
  FilterNode near = Leaf(Kind::kGeoRadius, "at");
  refused(near, {"filter.geo_radius.radius", "above 0"});
  near.radius = 1;
  near.center.lon = 181;
  refused(near, {"filter.geo_radius.center.lon", "181"});
  FilterNode box = Leaf(Kind::kGeoBox, "at");
  box.bottom_right.lat = 1;
  refused(box, {"filter.geo_box.top_left.lat"});
  FilterNode polygon = Leaf(Kind::kGeoPolygon, "at");
  refused(polygon, {"filter.geo_polygon.exterior", "not set"});
  polygon.rings = {{{{0, 0}, {1, 0}, {0, 0}}, {}}};
  refused(polygon, {"filter.geo_polygon.exterior.points", "3 places", "at least 4 places, the last of them the first"});
  polygon.rings = {{{{0, 0}, {1, 0}, {1, 1}, {0, 1}}, {}}};
  refused(polygon, {"filter.geo_polygon.exterior.points", "the last is not the first"});
  polygon.rings = {{{{0, 0}, {1, 0}, {1, 1}, {0, 0}}, {}}, {{{0, 0}, {1, 0}, {1, 91}, {0, 0}}, {}}};
  refused(polygon, {"filter.geo_polygon.interiors[0].points[2].lat", "91"});
  polygon.rings[1].points.assign(9'997, {0, 0});
  refused(polygon, {"filter.geo_polygon.interiors[0].points", "9997 long", "at most 10000 points"});
}

class FilterKindsServed : public EngineTest {
 protected:
  std::set<uint64_t> Found(const FilterNode& filter) {
    SearchCall call = SearchFor({0, 0, 0, 0}, 100);
    call.filter = filter;
    std::set<uint64_t> ids;
    for (const EngineHit& hit : Hits(call)) ids.insert(std::get<uint64_t>(hit.id.value));
    const auto count = engine_->Count("c", filter, {});
    EXPECT_TRUE(count.ok() && count->count == ids.size()) << count.status();
    return ids;
  }
};

TEST_F(FilterKindsServed, ConditionsOnIdsAndPrefixesAreAnsweredByBitmaps) {
  MakeCollection();
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 50; ++i) {
    items.push_back(ItemOf(Id(i), {0.01f * static_cast<float>(i), 0, 0, 0}, StrCat(R"({"t":"w)", i, " x\"}")));
  }
  Write(BatchOf(std::move(items)));
  FilterNode ids;
  ids.kind = Kind::kHasId;
  ids.ids = {Id(7), Id(3), Id("absent"), Id(90)};
  EXPECT_EQ(Found(ids), (std::set<uint64_t>{3, 7}));
  EXPECT_EQ(Found(Branch(Kind::kNot, {ids})).size(), 48u);
  Write(BatchOf({ItemOf(Id(3), {1, 1, 1, 1})}));  // newer content
  EXPECT_EQ(Found(ids), (std::set<uint64_t>{3, 7}));
  const FilterNode prefix = TextNode("t", Match::kPrefix, "w1"), words = TextNode("t", Match::kWords, "X w12");
  const std::set<uint64_t> with_prefix = Found(prefix);
  EXPECT_EQ(with_prefix.size(), 11u);
  EXPECT_EQ(Found(words), (std::set<uint64_t>{12}));
  IndexPayloadCall index;
  index.collection = "c";
  index.add = {{"t", PayloadType::kKeyword}};
  index.wait = true;
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  EXPECT_EQ(Found(prefix), with_prefix);
  EXPECT_EQ(Found(words), (std::set<uint64_t>{12}));
  SearchCall call = SearchFor({0, 0, 0, 0}, 100);
  call.filter = Branch(Kind::kAnd, {prefix, ids});
  call.profile = true;
  EXPECT_EQ(engine_->Search(call, {})->profile->payloads_read, 0);
  DeleteByFilterCall deletion;
  deletion.collection = "c";
  deletion.filter = ids;
  EXPECT_EQ(engine_->DeleteByFilter(deletion, {})->deleted, 2u);
}

}  // namespace
}  // namespace lightcone::server
