// Qdrant's filters: what they find, and what is refused.
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "server/rest/point_filter.h"
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A filter of a collection whose generation 3 is called "new-model".
absl::StatusOr<FilterNode> FilterOf(const json& filter) {
  const auto names = [](const std::string& name, const std::string& field) -> absl::StatusOr<uint32_t> {
    if (name.empty()) return uint32_t{0};
    if (name == "new-model") return uint32_t{3};
    return NotFound(StrCat(field, ": no vector named ", name));
  };
  return PointFilterFrom(filter, names, "filter");
}

class RestFilters : public RestTest {
 protected:
  void SetUp() override {
    RestTest::SetUp();
    Create("Dot");
    Upsert(json::parse(R"([
        {"id": 1, "vector": [1, 0], "payload": {"city": "Oslo", "n": 1, "tags": ["a", "b"],
          "when": "2024-05-01T12:00:00Z"}},
        {"id": 2, "vector": [1, 0], "payload": {"city": "Bern", "n": 2.5, "tags": [],
          "when": "2024-05-01T12:00:00+02:00"}},
        {"id": 3, "vector": [1, 0], "payload": {"city": "Rome", "n": 3, "tags": null,
          "rooms": [{"name": "x"}, {"name": "y"}], "at": {"lon": 12.5, "lat": 41.9}}},
        {"id": 4, "vector": [1, 0], "payload": {}}])"));
  }
  json Ids(const char* filter) {
    const Reply page = Post("/collections/c/points/scroll", {{"filter", json::parse(filter)}});
    EXPECT_EQ(page.status, 200) << filter << page.text;
    return IdsOf(page.result().value("points", json::array()));
  }
};

TEST_F(RestFilters, ConditionsFindWhatTheyFindAtQdrant) {
  const std::vector<std::pair<const char*, json>> cases = {
      {R"({"must": [{"key": "city", "match": {"value": "Oslo"}}]})", {1}},
      {R"({"must": {"key": "n", "match": {"value": 3}}})", {3}},
      {R"({"must": [{"key": "city", "match": {"any": ["Oslo", "Rome"]}}]})", {1, 3}},
      {R"({"must": [{"key": "city", "match": {"any": []}}]})", json::array()},
      {R"({"must": [{"key": "city", "match": {"except": ["Oslo", "Rome"]}}]})", {2}},
      {R"({"must_not": [{"key": "city", "match": {"value": "Oslo"}}]})", {2, 3, 4}},
      {R"({"should": [{"key": "city", "match": {"value": "Oslo"}}, {"key": "n", "range": {"gt": 2.5}}]})", {1, 3}},
      {R"({"must": [{"key": "n", "range": {"gte": 1, "lt": 3}}], "must_not": [{"key": "n", "match": {"value": 1}}]})",
       {2}},
      {R"({"must": [{"key": "when", "range": {"lt": "2024-05-01T11:00:00Z"}}]})", {2}},
      {R"({"must": [{"key": "tags", "match": {"value": "b"}}]})", {1}},
      {R"({"must": [{"is_empty": {"key": "tags"}}]})", {2, 3, 4}},
      {R"({"must": [{"is_null": {"key": "tags"}}]})", {3}},
      {R"({"must": [{"key": "tags", "values_count": {"gt": 1, "lte": 2}}]})", {1}},
      {R"({"must": [{"key": "rooms[].name", "match": {"value": "y"}}]})", {3}},
      {R"({"must": [{"must_not": [{"key": "n", "match": {"value": 1}}]}, {"key": "n", "range": {"lt": 3}}]})", {2}},
      {R"({"min_should": {"min_count": 2, "conditions": [{"key": "city", "match": {"value": "Oslo"}},
           {"key": "n", "range": {"lt": 3}}, {"key": "tags", "match": {"value": "zz"}}]}})",
       {1}},
      {R"({"must": [{"key": "at", "geo_polygon": {"exterior": {"points": [
           {"lon": 12, "lat": 41}, {"lon": 13, "lat": 41}, {"lon": 13, "lat": 43}, {"lon": 12, "lat": 41}]}}}]})",
       {3}},
      {R"({"must": [{"key": "at", "geo_polygon": {"exterior": {"points": [
           {"lon": 12, "lat": 41}, {"lon": 13, "lat": 41}, {"lon": 13, "lat": 43}, {"lon": 12, "lat": 41}]},
           "interiors": [{"points": [{"lon": 12.4, "lat": 41.8},
           {"lon": 12.6, "lat": 41.8}, {"lon": 12.5, "lat": 42}, {"lon": 12.4, "lat": 41.8}]}]}}]})",
       json::array()},
      {R"({"must": [{"has_vector": ""}]})", {1, 2, 3, 4}},
      {R"({"must": [{"has_vector": "gen-1"}, {"has_id": [2, 3]}]})", {2, 3}},
      {R"({"must_not": [{"has_vector": "gen-1"}]})", json::array()},
      {R"({})", {1, 2, 3, 4}}};
  for (const auto& [filter, ids] : cases) EXPECT_EQ(Ids(filter), ids) << filter;
}

TEST_F(RestFilters, AMisspeltFilterDeletesNothing) {
  for (const char* filter : {R"({"key": "city", "match": {"value": "Oslo"}})", R"({"musts": []})"}) {
    const Reply refused = Post("/collections/c/points/delete?wait=true", {{"filter", json::parse(filter)}});
    EXPECT_EQ(refused.status, 400) << refused.text;
    EXPECT_THAT(refused.error(), HasSubstr("must, should, must_not, min_should"));
  }
  EXPECT_EQ(Ids("{}"), json({1, 2, 3, 4}));
}

TEST(RestFilter, ChoicesWithinChoicesAreRefusedBeforeTheyFillTheMemory) {
  json filter = {{"key", "a"}, {"match", {{"value", 1}}}};
  for (int depth = 0; depth < 5; ++depth) {
    json conditions = json::array();
    for (int i = 0; i < 10; ++i) conditions.push_back(filter);
    filter = {{"min_should", {{"min_count", 7}, {"conditions", conditions}}}};
    if (depth == 0) {
      EXPECT_TRUE(FilterOf(filter).ok());
    }
  }
  const auto refused = FilterOf(filter);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("7 of 10 conditions"));
}

TEST(RestFilter, BracketsInAQuotedKeyStayWhateverQuotesItHas) {
  for (const auto& [path, expected] : {std::pair(R"(a[].b)", "a.b"),
                                       {R"("a[]".b)", R"("a[]".b)"},
                                       {R"("a\"[]".b[])", R"("a\"[]".b)"},
                                       {R"(a"[].b)", R"(a".b)"},
                                       {R"("a\\"[].b)", R"("a\\".b)"}}) {
    const auto got = PayloadPathFrom(path, "key");
    ASSERT_TRUE(got.ok()) << path << ": " << got.status();
    EXPECT_EQ(*got, expected);
  }
  EXPECT_EQ(PayloadPathFrom(R"(a"[0])", "key").status().code(), absl::StatusCode::kUnimplemented);
  // Brackets that join or precede keys would name another field.
  for (const char* const path : {"a[]b", "[]a", "a.[]", R"("a"[]b)"}) {
    EXPECT_EQ(PayloadPathFrom(path, "key").status().code(), absl::StatusCode::kInvalidArgument) << path;
  }
}

TEST(RestFilter, AConditionBesideIsEmptyIsNotLost) {
  const json filter = json::parse(R"({"must": [{"is_empty": {"key": "a"}, "match": {"value": 1}}]})");
  EXPECT_THAT(MessageOf(FilterOf(filter).status()), HasSubstr("filter.must[0].match"));
  for (const char* alone : {R"({"has_vector": "", "key": "a", "match": {"value": 1}})",
                            R"({"has_id": [1], "key": "a", "match": {"value": 1}})",
                            R"({"nested": {"key": "a", "filter": {}}, "key": "a", "match": {"value": 1}})"}) {
    const json two = {{"must", json::array({json::parse(alone)})}};
    EXPECT_THAT(MessageOf(FilterOf(two).status()), HasSubstr("filter.must[0].match")) << alone;
  }
}

TEST(RestFilter, WhatIsWrongIsNamedWithItsPlace) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"must": [{"key": "a"}]})", "filter.must[0]"},
      {R"({"must": [{"key": 3, "match": {"value": 1}}]})", "filter.must[0].key"},
      {R"({"must": [{"key": "a", "range": {}}]})", "filter.must[0].range"},
      {R"({"should": [{"key": "a", "range": {"gt": "soon"}}]})", "filter.should[0].range.gt"},
      {R"({"must": [{"key": "a", "match": {"value": 1.5}}]})", "filter.must[0].match.value"},
      {R"({"must": [{"key": "a", "match": {"value": 9223372036854775808}}]})", "filter.must[0].match.value"},
      {R"({"must": [{"key": "a", "values_count": {"gt": -1}}]})", "filter.must[0].values_count.gt"},
      {R"({"must": 3})", "filter.must"},
      {R"({"must": [{"has_vector": 3}]})", "filter.must[0].has_vector"},
      {R"({"must": [{"key": "a", "geo_polygon": {}}]})", "filter.must[0].geo_polygon.exterior"},
      {R"({"must": [{"key": "a", "geo_polygon": {"exterior": {"points": [{"lon": 1}]}}}]})",
       "filter.must[0].geo_polygon.exterior.points[0]"},
      {R"({"must": [{"key": "a", "geo_polygon": {"exterior": {"points": []}, "interiors": [{}]}}]})",
       "filter.must[0].geo_polygon.interiors[0].points"},
      {R"({"min_should": {"conditions": []}})", "filter.min_should.min_count"}};
  for (const auto& [filter, field] : cases) {
    const auto node = FilterOf(json::parse(filter));
    EXPECT_EQ(node.status().code(), absl::StatusCode::kInvalidArgument) << filter;
    EXPECT_THAT(MessageOf(node.status()), HasSubstr(std::string("'") + field + "'")) << filter;
  }
  const json indexed = json::parse(R"({"must": [{"key": "a[0]", "match": {"value": 1}}]})");
  EXPECT_EQ(FilterOf(indexed).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(RestFilter, AVectorsNameStandsForAGenerationInGroupsAndInNestedFiltersToo) {
  const json named = {{"has_vector", "new-model"}};
  const json all[] = {{{"must", named}},
                      {{"must", {{{"should", {named}}}}}},
                      {{"must", {{"nested", {{"key", "a"}, {"filter", {{"must", named}}}}}}}},
                      {{"min_should", {{"min_count", 1}, {"conditions", {named}}}}}};
  for (const json& filter : all) {
    absl::StatusOr<FilterNode> node = FilterOf(filter);
    ASSERT_TRUE(node.ok()) << filter << node.status();
    FilterNode leaf = *node;
    while (!leaf.children.empty()) leaf = FilterNode(leaf.children[0]);
    EXPECT_EQ(leaf.field, kGenerationField) << filter;
    EXPECT_EQ(leaf.values, std::vector<FilterValue>{int64_t{3}}) << filter;
    const auto unknown = FilterOf(json::parse(absl::StrReplaceAll(filter.dump(), {{"new-model", "old-model"}})));
    EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound) << filter;
    EXPECT_THAT(MessageOf(unknown.status()), HasSubstr("has_vector: no vector named old-model"));
  }
}

}  // namespace
}  // namespace lightcone::server
