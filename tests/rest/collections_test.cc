// Collections, payload indexes and aliases over REST.
#include "base/strings.h"
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using RestCollections = RestTest;

TEST_F(RestCollections, TheRootTellsProgramsTheVersionAndBrowsersTheConsole) {
  const Reply title = Get("/");
  EXPECT_EQ(title.status, 200);
  EXPECT_THAT(title.body.value("title", ""), HasSubstr("lightcone"));
  EXPECT_EQ(title.body["lightcone"]["version"], std::string(ServerVersion()));
  EXPECT_THAT(Send("GET", "/", "", {{"Accept", "text/html"}}).text, HasSubstr("<!doctype html>"));
}

TEST_F(RestCollections, ACollectionIsMadeShownAndDropped) {
  EXPECT_EQ(Get("/collections").result(), json({{"collections", json::array()}}));
  EXPECT_EQ(Get("/collections/c/exists").result(), json({{"exists", false}}));
  Create("Cosine");
  EXPECT_EQ(Get("/collections").result(), json::parse(R"({"collections": [{"name": "c"}]})"));
  EXPECT_EQ(Get("/collections/c/exists").result(), json({{"exists", true}}));
  const Reply shown = Get("/collections/c");
  EXPECT_EQ(shown.body["status"], "ok");
  EXPECT_TRUE(shown.body["time"].is_number());
  EXPECT_EQ(shown.result()["status"], "green");
  EXPECT_EQ(shown.result()["points_count"], 0);
  EXPECT_EQ(shown.result()["config"]["params"]["vectors"], json({{"size", 2}, {"distance", "Cosine"}}));
  EXPECT_EQ(shown.result()["lightcone"]["active_generation"], 1);
  const Reply twice = Put("/collections/c", {{"vectors", {{"size", 2}, {"distance", "Dot"}}}});
  EXPECT_EQ(twice.status, 409) << twice.text;
  EXPECT_EQ(Send("PATCH", "/collections/c", R"({"optimizers_config": {"indexing_threshold": 1}})").result(),
            json(true));
  EXPECT_EQ(Send("DELETE", "/collections/c").result(), json(true));
  EXPECT_EQ(Send("DELETE", "/collections/c").result(), json(false));
  EXPECT_EQ(Get("/collections/c").status, 404);
}

TEST_F(RestCollections, WhatIsNotThereIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"({"vectors": {"size": 2, "distance": "Manhattan"}})", "vectors.distance"},
      {R"({"vectors": {"size": 2, "distance": "Cosine"}, "sparse_vectors": {"s": {}}})", "sparse_vectors"},
      {R"({"vectors": {"size": 2, "distance": "Cosine", "multivector_config": {"comparator": "max_sim"}}})",
       "vectors.multivector_config"},
      {R"({"vectors": {"size": 2, "distance": "Cosine", "datatype": "uint8"}})", "vectors.datatype"},
      {R"({"vectors": {"image": {"size": 2, "distance": "Cosine"}}})", "vectors"},
      {R"({"vectors": {"size": 2, "distance": "Cosine"}, "init_from": {"collection": "d"}})", "init_from"},
  };
  for (const auto& [body, field] : refused) {
    const Reply reply = Send("PUT", "/collections/c", body);
    EXPECT_EQ(reply.status, 501) << body;
    EXPECT_THAT(reply.error(), HasSubstr("'" + field + "'")) << body;
  }
  for (const char* body :
       {R"({"vectors": {"size": 0, "distance": "Cosine"}})", R"({"vectors": {"distance": "Cosine"}})",
        R"({"vectors": {"size": 2, "distance": "cosine"}})", R"({})",
        R"({"vectors": {"size": 2, "distance": "Cosine"}, "shard_number": 0})"}) {
    const Reply reply = Send("PUT", "/collections/c", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(reply.error(), HasSubstr("allowed")) << body;
  }
  EXPECT_EQ(Get("/collections/c").status, 404) << "nothing is left of a call that failed";
}

// Stock clients ask for copies wherever they run, and Qdrant takes the numbers outside a cluster, too.
TEST_F(RestCollections, NumbersOfShardsAndCopiesMeanNothingToOneMachine) {
  const Reply made = Send("PUT", "/collections/c", R"({"vectors": {"size": 2, "distance": "Dot"},
      "shard_number": 3, "replication_factor": 2, "write_consistency_factor": 2})");
  EXPECT_EQ(made.status, 200) << made.text;
  EXPECT_EQ(Get("/collections/c").result()["config"]["params"]["replication_factor"], 1);
}

TEST_F(RestCollections, TelemetryTellsTheApiAndCountsCollections) {
  const json before = Get("/telemetry").result();
  EXPECT_EQ(before["app"]["name"], "qdrant");
  EXPECT_EQ(before["app"]["version"], Get("/").body["version"]);
  EXPECT_EQ(before["collections"]["number_of_collections"], 0);
  Create("Dot");
  EXPECT_EQ(Get("/telemetry").result()["collections"]["number_of_collections"], 1);
}

TEST_F(RestCollections, AnAliasThatIsRenamedToItselfStays) {
  Create("Dot");
  const auto act = [this](const char* actions) {
    return Send("POST", "/collections/aliases", StrCat("{\"actions\":[", actions, "]}")).status;
  };
  ASSERT_EQ(act(R"({"create_alias": {"alias_name": "live", "collection_name": "c"}})"), 200);
  EXPECT_EQ(act(R"({"rename_alias": {"old_alias_name": "live", "new_alias_name": "live"}})"), 200);
  EXPECT_EQ(Get("/collections/live").status, 200);
}

TEST_F(RestCollections, AWrongWaitIsRefusedBeforeAnythingIsChanged) {
  Create("Dot");
  const json points = {{"points", {{{"id", 1}, {"vector", {1, 0}}}}}};
  EXPECT_EQ(Put("/collections/c/points?wait=1", points).status, 400);
  EXPECT_EQ(Get("/collections/c").result()["points_count"], 0);
}

TEST_F(RestCollections, PayloadIndexesAreMadeAndDropped) {
  Create("Dot");
  const Reply made =
      Put("/collections/c/index?wait=true", {{"field_name", "tags[].name"}, {"field_schema", "keyword"}});
  EXPECT_EQ(made.status, 200) << made.text;
  EXPECT_EQ(made.result()["status"], "completed");
  EXPECT_EQ(Put("/collections/c/index", {{"field_name", "when"}, {"field_schema", {{"type", "datetime"}}}})
                .result()["status"],
            "acknowledged");
  const json schema = Get("/collections/c").result()["payload_schema"];
  EXPECT_EQ(schema["tags.name"]["data_type"], "keyword");
  EXPECT_EQ(schema["when"]["data_type"], "datetime");
  for (const char* type : {"geo", "text"}) {
    EXPECT_EQ(Put("/collections/c/index", {{"field_name", type}, {"field_schema", type}}).status, 200) << type;
    EXPECT_EQ(Get("/collections/c").result()["payload_schema"][type]["data_type"], type);
  }
  const json words = {{"type", "text"}, {"tokenizer", "word"}, {"lowercase", true}, {"min_token_len", 2}};
  EXPECT_EQ(Put("/collections/c/index", {{"field_name", "text"}, {"field_schema", words}}).status, 200)
      << "an index that is there already";
  for (const json& other : {json{{"tokenizer", "prefix"}}, json{{"stemmer", "english"}}, json{{"stopwords", "english"}},
                            json{{"lowercase", false}}}) {
    json schema = other;
    schema["type"] = "text";
    const Reply refused = Put("/collections/c/index", {{"field_name", "more"}, {"field_schema", schema}});
    EXPECT_EQ(refused.status, 501) << refused.text;
    EXPECT_THAT(refused.error(), HasSubstr("field_schema." + other.begin().key()));
  }
  EXPECT_EQ(Put("/collections/c/index", {{"field_name", "x"}, {"field_schema", "color"}}).status, 400);
  EXPECT_EQ(Send("DELETE", "/collections/c/index/when").status, 200);
  EXPECT_FALSE(Get("/collections/c").result()["payload_schema"].contains("when"));
}

TEST_F(RestCollections, AliasesAreMadeRenamedAndRemoved) {
  Create("Dot");
  const auto change = [&](const char* actions) {
    return Send("POST", "/collections/aliases", std::string(R"({"actions": [)") + actions + "]}");
  };
  EXPECT_EQ(change(R"({"create_alias": {"collection_name": "c", "alias_name": "live"}})").result(), json(true));
  const json listed = json::parse(R"({"aliases": [{"alias_name": "live", "collection_name": "c"}]})");
  EXPECT_EQ(Get("/aliases").result(), listed);
  EXPECT_EQ(Get("/collections/live/aliases").result(), listed);
  EXPECT_EQ(Get("/collections/live").status, 200);
  EXPECT_EQ(change(R"({"rename_alias": {"old_alias_name": "live", "new_alias_name": "next"}})").status, 200);
  EXPECT_EQ(Get("/aliases").result()["aliases"][0]["alias_name"], "next");
  EXPECT_EQ(change(R"({"delete_alias": {"alias_name": "next"}})").status, 200);
  EXPECT_EQ(Get("/aliases").result(), json({{"aliases", json::array()}}));
  EXPECT_EQ(change(R"({"rename_alias": {"old_alias_name": "none", "new_alias_name": "next"}})").status, 404);
  EXPECT_EQ(change(R"({"swap_alias": {}})").status, 400);
}

}  // namespace
}  // namespace lightcone::server
