// Changes of payloads, facets, groups and orders over REST.
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class RestPayloads : public RestTest {
 protected:
  void SetUp() override {
    RestTest::SetUp();
    Create("Dot");
    Upsert(json::parse(R"([{"id": 1, "vector": [1, 0], "payload": {"city": "Oslo", "n": 3}},
                           {"id": 2, "vector": [2, 0], "payload": {"city": "Bern", "n": 1}},
                           {"id": 3, "vector": [3, 0], "payload": {"city": "Oslo", "n": 2}}])"));
  }
  json PayloadOf(int id) { return Get("/collections/c/points/" + std::to_string(id)).result()["payload"]; }
};

TEST_F(RestPayloads, PayloadsAreSetOverwrittenAndClearedInTheOrderOfTheList) {
  const Reply done = Send("POST", "/collections/c/points/batch?wait=true", R"({"operations": [
      {"set_payload": {"payload": {"n": 7}, "points": [1]}},
      {"overwrite_payload": {"payload": {"x": 1}, "filter": {"must": [{"key": "city", "match": {"value": "Bern"}}]}}},
      {"delete_payload": {"keys": ["city"], "points": [3]}},
      {"delete": {"points": [2]}},
      {"update_vectors": {"points": [{"id": 3, "vector": [0, 5]}]}}]})");
  ASSERT_EQ(done.status, 200) << done.text;
  EXPECT_EQ(done.result().size(), 5u);
  EXPECT_EQ(Get("/collections/c/points/3").result()["vector"], json({0.0, 5.0}));
  EXPECT_EQ(PayloadOf(1), json({{"city", "Oslo"}, {"n", 7}}));
  EXPECT_EQ(PayloadOf(3), json({{"n", 2}}));
  EXPECT_EQ(Get("/collections/c/points/2").status, 404);
  EXPECT_EQ(Post("/collections/c/points/payload/clear", {{"points", {1}}}).status, 200);
  EXPECT_EQ(PayloadOf(1), json::object());
  const Reply wrong = Send("POST", "/collections/c/points/batch", R"({"operations": [{"delete_vectors": {}}]})");
  EXPECT_EQ(wrong.status, 501) << wrong.text;
  EXPECT_EQ(Send("POST", "/collections/c/points/payload", R"({"payload": [1], "points": [1]})").status, 400);
}

TEST_F(RestPayloads, AnErrorOfAListNamesTheElementAndItsValue) {
  const auto error = [&](const std::string& path, const std::string& body) {
    const Reply refused = Send("POST", "/collections/c/points" + path, body);
    EXPECT_NE(refused.status, 200) << body;
    return refused.error();
  };
  const auto names = [](const std::string& field, const std::string& value) {
    return AllOf(HasSubstr("'" + field + "'"), HasSubstr(value));
  };
  const std::string keys = "/payload/delete";
  EXPECT_THAT(error(keys, R"({"points": [1], "keys": ["n", "a[]b"]})"), names("keys[1]", "a[]b"));
  EXPECT_THAT(error(keys, R"({"points": [1], "keys": ["n", "x", "b[0]"]})"), names("keys[2]", "b[0]"));
  EXPECT_THAT(error(keys, R"({"points": [1], "keys": ["n", 7]})"), names("keys[1]", "7"));
  EXPECT_THAT(error(keys, R"({"points": [1, -4], "keys": ["n"]})"), names("points[1]", "-4"));
  EXPECT_THAT(error("", R"({"ids": [1, 2, "no-uuid"]})"), names("ids[2]", "no-uuid"));
  EXPECT_THAT(error("", R"({"ids": [1], "with_payload": ["n", "a[]b"]})"), names("with_payload[1]", "a[]b"));
  EXPECT_THAT(error("", R"({"ids": [1], "with_payload": {"exclude": ["n", 8]}})"),
              names("with_payload.exclude[1]", "8"));
  EXPECT_THAT(error("", R"({"ids": [1], "with_vector": [9]})"), names("with_vector[0]", "9"));
}

TEST_F(RestPayloads, FieldsCountGroupAndOrderPoints) {
  for (const auto& [field, type] : {std::pair("city", "keyword"), std::pair("n", "integer")}) {
    const Reply made = Put("/collections/c/index?wait=true", {{"field_name", field}, {"field_schema", type}});
    ASSERT_EQ(made.status, 200) << made.text;
  }
  const Reply facet = Post("/collections/c/facet", {{"key", "city"}});
  EXPECT_EQ(facet.result()["hits"], json::parse(R"([{"value": "Oslo", "count": 2}, {"value": "Bern", "count": 1}])"))
      << facet.text;
  const Reply groups = Post("/collections/c/points/query/groups",
                            {{"query", {1, 0}}, {"group_by", "city"}, {"group_size", 1}, {"limit", 2}});
  ASSERT_EQ(groups.status, 200) << groups.text;
  EXPECT_EQ(groups.result()["groups"][0]["id"], "Oslo");
  EXPECT_EQ(IdsOf(groups.result()["groups"][0]["hits"]), json({3}));
  EXPECT_EQ(Post("/collections/c/points/payload", {{"payload", {{"flag", true}}}, {"points", {1, 3}}}).status, 200);
  const Reply flags = Post("/collections/c/points/query/groups", {{"query", {1, 0}}, {"group_by", "flag"}});
  EXPECT_EQ(flags.result()["groups"][0]["id"], "true") << "ids of groups are numbers or texts: " << flags.text;
  const Reply ordered =
      Send("POST", "/collections/c/points/scroll", R"({"order_by": {"key": "n", "direction": "desc"}, "limit": 2})");
  EXPECT_EQ(IdsOf(ordered.result()["points"]), json({1, 3})) << ordered.text;
}

TEST_F(RestPayloads, FiltersKnowIds) {
  const Reply counted = Send("POST", "/collections/c/points/count", R"({"filter": {"must": [{"has_id": [1, 9]}]}})");
  EXPECT_EQ(counted.result()["count"], 1) << counted.text;
}

}  // namespace
}  // namespace lightcone::server
