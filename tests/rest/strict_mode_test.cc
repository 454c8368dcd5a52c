// Strict mode over REST, by the names of Qdrant's clients.
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RestStrictMode : public RestTest {
 protected:
  void Patch(const json& config, int status = 200) {
    const Reply reply = Send("PATCH", "/collections/c", json({{"strict_mode_config", config}}).dump());
    EXPECT_EQ(reply.status, status) << reply.text;
  }
  // Ten points, and no payload index.
  void Fill() {
    json points = json::array();
    for (int i = 0; i < 10; ++i) {
      points.push_back({{"id", i}, {"vector", {1, i}}, {"payload", {{"city", "Rome"}}}});
    }
    Upsert(points);
  }
  Reply Search(const json& more, int limit = 3) {
    json body = {{"vector", {1, 0}}, {"limit", limit}};
    body.update(more);
    return Post("/collections/c/points/search", body);
  }
};

TEST_F(RestStrictMode, LimitsAreGivenAtTheStartChangedAndShown) {
  const json made = {{"vectors", {{"size", 2}, {"distance", "Dot"}}},
                     {"strict_mode_config", {{"enabled", true}, {"max_query_limit", 5}}}};
  ASSERT_EQ(Put("/collections/c", made).status, 200);
  EXPECT_EQ(Get("/collections/c").result()["config"]["strict_mode_config"], made["strict_mode_config"]);
  Patch({{"upsert_max_batchsize", 20}, {"search_allow_exact", false}, {"max_query_limit", nullptr}});
  EXPECT_EQ(
      Get("/collections/c").result()["config"]["strict_mode_config"],
      json({{"enabled", true}, {"max_query_limit", 5}, {"search_allow_exact", false}, {"upsert_max_batchsize", 20}}));
}

TEST_F(RestStrictMode, MembersThatAreNotThereAreRefusedByName) {
  Create("Dot");
  for (const char* name : {"max_timeout", "read_rate_limit", "max_collection_vector_size_bytes"}) {
    const Reply reply =
        Send("PATCH", "/collections/c", json({{"strict_mode_config", {{"enabled", true}, {name, 3}}}}).dump());
    EXPECT_EQ(reply.status, 501) << name;
    EXPECT_THAT(reply.error(), HasSubstr(std::string("'strict_mode_config.") + name + "'"));
  }
  Patch({{"max_query_limit", -1}}, 400);
  Patch({{"enabled", "yes"}}, 400);
  EXPECT_FALSE(Get("/collections/c").result()["config"].contains("strict_mode_config")) << "nothing was taken over";
}

TEST_F(RestStrictMode, SearchesAboveALimitAreRefused) {
  Create("Dot");
  Fill();
  Patch({{"enabled", true},
         {"max_query_limit", 4},
         {"search_max_hnsw_ef", 32},
         {"search_allow_exact", false},
         {"search_max_batchsize", 1}});
  EXPECT_EQ(Search(json::object(), 4).status, 200);
  EXPECT_THAT(Search(json::object(), 5).error(), HasSubstr("strict mode of collection 'c': field 'k' is 5"));
  EXPECT_EQ(Search({{"params", {{"hnsw_ef", 33}}}}).status, 400);
  EXPECT_EQ(Search({{"params", {{"exact", true}}}}).status, 400);
  const json one = {{"vector", {1, 0}}, {"limit", 1}};
  EXPECT_EQ(Post("/collections/c/points/search/batch", {{"searches", json::array({one})}}).status, 200);
  const Reply two = Post("/collections/c/points/search/batch", {{"searches", json::array({one, one})}});
  EXPECT_EQ(two.status, 400);
  EXPECT_THAT(two.error(), HasSubstr("'searches' is 2 long"));
  const Reply liked = Post("/collections/c/points/recommend", {{"positive", {1}}, {"limit", 4}});
  EXPECT_EQ(liked.status, 200) << "the example that is left out is not counted: " << liked.text;
  EXPECT_EQ(Post("/collections/c/points/recommend", {{"positive", {1}}, {"limit", 5}}).status, 400);
}

TEST_F(RestStrictMode, AFilterWithoutAnIndexIsRefusedUntilThereIsOne) {
  Create("Dot");
  Fill();
  Patch({{"enabled", true}, {"unindexed_filtering_retrieve", false}, {"unindexed_filtering_update", false}});
  const json filter = {{"must", {{{"key", "city"}, {"match", {{"value", "Rome"}}}}}}};
  const json body = {{"filter", filter}};
  for (const char* path : {"scroll", "count", "delete"}) {
    const Reply reply = Post(std::string("/collections/c/points/") + path, body);
    EXPECT_EQ(reply.status, 409) << path;
    EXPECT_THAT(reply.error(), HasSubstr("'city=keyword'")) << path;
  }
  EXPECT_EQ(Search(body).status, 409);
  ASSERT_EQ(Put("/collections/c/index?wait=true", {{"field_name", "city"}, {"field_schema", "keyword"}}).status, 200);
  EXPECT_EQ(Search(body).result().size(), 3u);
  EXPECT_EQ(Post("/collections/c/points/count", body).result()["count"], 10);
}

TEST_F(RestStrictMode, ATooLargeBatchWritesNothing) {
  Create("Dot");
  Patch({{"enabled", true}, {"upsert_max_batchsize", 3}, {"payload_bytes_max", 10}});
  json points = json::array();
  for (int i = 0; i < 4; ++i) points.push_back({{"id", i}, {"vector", {1, i}}});
  EXPECT_EQ(Put("/collections/c/points", {{"points", points}}).status, 400);
  const json wide = {{"id", 1}, {"vector", {1, 0}}, {"payload", {{"city", "Rome"}}}};
  EXPECT_EQ(Put("/collections/c/points", {{"points", {wide}}}).status, 400);
  EXPECT_EQ(Get("/collections/c").result()["points_count"], 0);
}

}  // namespace
}  // namespace lightcone::server
