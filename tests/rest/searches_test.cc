// Searches over REST: scores, thresholds, queries by point and by example, parts of hits, batches.
#include <cmath>
#include <string>
#include <string_view>

#include "base/status.h"
#include "client/client.h"
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::DoubleNear;
using testing::HasSubstr;

class RestSearches : public RestTest {
 protected:
  // Points at 0, 45 and 90 degrees, and one that is twice as long.
  void Fill(const std::string& distance) {
    Create(distance);
    Upsert(json::parse(R"([{"id": 1, "vector": [1, 0], "payload": {"a": 1, "b": {"c": 2}}},
                           {"id": 2, "vector": [1, 1], "payload": {"a": 2}},
                           {"id": 3, "vector": [0, 1], "payload": {"a": 3}},
                           {"id": 4, "vector": [-2, 0], "payload": {"a": 4}}])"));
  }
  json Search(json body) {
    if (!body.contains("limit")) body["limit"] = 10;
    const Reply reply = Post("/collections/c/points/search", body);
    EXPECT_EQ(reply.status, 200) << reply.text;
    return reply.result();
  }
};

TEST_F(RestSearches, CosineScoresAreSimilarities) {
  Fill("Cosine");
  const json hits = Search({{"vector", {2, 0}}});
  EXPECT_EQ(IdsOf(hits), json({1, 2, 3, 4}));
  EXPECT_THAT(hits[0]["score"].get<double>(), DoubleNear(1, 1e-6));
  EXPECT_THAT(hits[1]["score"].get<double>(), DoubleNear(0.70710678, 1e-6));
  EXPECT_THAT(hits[3]["score"].get<double>(), DoubleNear(-1, 1e-6));
  EXPECT_EQ(hits[0]["version"], 0);
  EXPECT_EQ(hits[0]["lightcone"]["generation"], 1);
  EXPECT_EQ(IdsOf(Search({{"vector", {1, 0}}, {"score_threshold", 0.5}})), json({1, 2}));
}

TEST_F(RestSearches, DotScoresAreProducts) {
  Fill("Dot");
  const json hits = Search({{"vector", {-3, 0}}, {"params", {{"exact", true}}}});
  EXPECT_EQ(hits[0]["id"], 4);
  EXPECT_THAT(hits[0]["score"].get<double>(), DoubleNear(6, 1e-6));
  EXPECT_EQ(IdsOf(Search({{"vector", {-3, 0}}, {"score_threshold", 1}})), json({4}));
}

TEST_F(RestSearches, EuclidScoresAreDistancesAndTheThresholdIsTheGreatest) {
  Fill("Euclid");
  const json hits = Search({{"vector", {1, 0}}, {"params", {{"hnsw_ef", 64}}}});
  EXPECT_EQ(hits[0]["id"], 1);
  EXPECT_THAT(hits[0]["score"].get<double>(), DoubleNear(0, 1e-6));
  EXPECT_THAT(hits[3]["score"].get<double>(), DoubleNear(3, 1e-6));
  EXPECT_EQ(IdsOf(Search({{"vector", {1, 0}}, {"score_threshold", 1.1}})), json({1, 2}));
}

TEST_F(RestSearches, HitsHaveThePartsThatWereAskedFor) {
  Fill("Dot");
  const json plain = Search({{"vector", {1, 0}}, {"limit", 1}});
  EXPECT_FALSE(plain[0].contains("payload"));
  EXPECT_FALSE(plain[0].contains("vector"));
  const auto payload = [&](const json& with) {
    return Search({{"vector", {1, -1}}, {"limit", 1}, {"with_payload", with}})[0]["payload"];
  };
  EXPECT_EQ(payload(true), json::parse(R"({"a": 1, "b": {"c": 2}})"));
  EXPECT_EQ(payload({"a"}), json({{"a", 1}}));
  EXPECT_EQ(payload({{"include", {"b.c"}}}), json::parse(R"({"b": {"c": 2}})"));
  EXPECT_EQ(payload({{"exclude", {"b"}}}), json({{"a", 1}}));
  EXPECT_EQ(Search({{"vector", {1, -1}}, {"with_vector", true}})[0]["vector"], json({1.0, 0.0}));
  EXPECT_EQ(IdsOf(Search({{"vector", {1, -1}}, {"limit", 2}, {"offset", 1}})).size(), 2u);
  EXPECT_EQ(Search({{"vector", {{"name", "gen-1"}, {"vector", {1, -1}}}}})[0]["id"], 1);
  EXPECT_EQ(Post("/collections/c/points/search?generation=1", {{"vector", {1, 0}}, {"limit", 1}}).status, 200);
  EXPECT_EQ(Post("/collections/c/points/search?generation=2", {{"vector", {1, 0}}, {"limit", 1}}).status, 404);
}

TEST_F(RestSearches, CandidatesAreEmbeddedAnewWhereThereIsAnEncoder) {
  Fill("Cosine");
  const auto post = [&](const json& refresh_top) {
    return Post("/collections/c/points/query", {{"query", {2, 0}}, {"params", {{"refresh_top", refresh_top}}}});
  };
  EXPECT_FALSE(post(0).result().contains("refresh"));
  EXPECT_THAT(post(5).error(), HasSubstr("no encoder that could embed candidates"));
  EXPECT_THAT(post(1001).error(), HasSubstr("'refresh_top' is 1001"));
  EXPECT_THAT(post(-1).error(), HasSubstr("params.refresh_top"));
}

TEST_F(RestSearches, SearchesThatMayEmbedDoNotHoldAThreadOfTheOthers) {
  Fill("Cosine");
  const auto begun = [this](std::string_view lane) {
    const std::string line = StrCat("\nlightcone_lane_wait_seconds_count{lane=\"", lane, "\"} ");
    const std::string text = Get("/metrics").text;
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << line;
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + line.size()));
  };
  const int reads = begun("read"), waits = begun("wait");
  EXPECT_EQ(Post("/collections/c/points/query", {{"query", {2, 0}}}).status, 200);
  EXPECT_EQ(begun("read"), reads + 1);
  EXPECT_EQ(begun("wait"), waits);
  const json params = {{"refresh_top", 5}};
  EXPECT_EQ(Post("/collections/c/points/query", {{"query", {2, 0}}, {"params", params}}).status, 409);
  const json search = {{"vector", {2, 0}}, {"limit", 1}, {"params", params}};
  EXPECT_EQ(Post("/collections/c/points/search/batch", {{"searches", {search}}}).status, 409);
  EXPECT_EQ(begun("read"), reads + 1);
  EXPECT_EQ(begun("wait"), waits + 2);
}

TEST_F(RestSearches, AQueryWithoutAQueryListsScoredPoints) {
  Fill("Cosine");
  const json points =
      Post("/collections/c/points/query", {{"limit", 1}, {"with_vectors", true}, {"with_payload", true}})
          .result()["points"];
  ASSERT_EQ(points.size(), 1u);
  for (const char* part : {"id", "version", "score", "payload", "vector"})
    EXPECT_TRUE(points[0].contains(part)) << part;
}

TEST_F(RestSearches, AVectorOfANameIsShownForPointsOfItsGenerationAlone) {
  Fill("Cosine");
  v1::RegisterRequest request;
  request.set_collection("c");
  request.set_manifest_json(R"({"dimension": 2})");
  client::ClientOptions options;
  options.address = server_->bound().grpc;
  ASSERT_TRUE(client::Client::Connect(options).value()->RegisterGeneration(request).ok());
  const auto vectors = [this](const char* path, json body) {
    const Reply reply = Post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.text;
    json shown = json::array();
    const json result = reply.result();
    for (const json& point : result.is_array() ? result : result["points"]) shown.push_back(point["vector"]);
    return shown;
  };
  const char *const scroll = "/collections/c/points/scroll", *const search = "/collections/c/points/search";
  EXPECT_EQ(vectors(scroll, {{"limit", 1}, {"with_vector", {"gen-1"}}})[0].size(), 1u);
  EXPECT_EQ(vectors(scroll, {{"limit", 1}, {"with_vector", {"gen-2"}}}), json::array({json::object()}));
  EXPECT_EQ(Post(scroll, {{"with_vector", {"no-such"}}}).status, 404);
  // The name of a vector to show is not that of the query.
  EXPECT_EQ(vectors(search, {{"vector", {1, 0}}, {"limit", 1}, {"with_vector", {"gen-2"}}}),
            json::array({json::object()}));
}

TEST_F(RestSearches, GroupsOfRecommendationsLeaveTheExamplesOut) {
  Fill("Cosine");
  Upsert(json::parse(R"([{"id": 5, "vector": [1, 0.1], "payload": {"a": 1}}])"));
  const Reply groups =
      Post("/collections/c/points/query/groups",
           {{"query", {{"recommend", {{"positive", {1}}}}}}, {"group_by", "a"}, {"limit", 4}, {"group_size", 1}});
  ASSERT_EQ(groups.status, 200) << groups.text;
  ASSERT_EQ(groups.result()["groups"].size(), 4u) << "the example's group has another point";
  EXPECT_EQ(groups.result()["groups"][0]["hits"][0]["id"], 5);
}

TEST_F(RestSearches, MmrChoosesHitsThatAreUnlikeEachOther) {
  Fill("Cosine");
  Upsert(json::parse(R"([{"id": 11, "vector": [1, 0.01]}, {"id": 12, "vector": [1, 0.02]}])"));
  const auto query = [&](json mmr, json more) {
    more["query"] = {{"nearest", {1, 0.5}}, {"mmr", std::move(mmr)}};
    const Reply reply = Post("/collections/c/points/query", more);
    EXPECT_EQ(reply.status, 200) << reply.text;
    return reply.result()["points"];
  };
  const json spread = query({{"diversity", 0.7}, {"candidates_limit", 6}}, {{"limit", 3}});
  EXPECT_EQ(IdsOf(spread), json({2, 4, 1}))
      << "the opposite is unlike the first, and the two that are nearly 1 are not";
  EXPECT_NEAR(spread[1]["score"].get<double>(), -2 / std::sqrt(5), 1e-5) << "scores are those of the distance";
  EXPECT_FALSE(spread[0].contains("vector") && !spread[0]["vector"].is_null());
  EXPECT_EQ(IdsOf(query({{"diversity", 0.0}}, {{"limit", 3}})), json({2, 12, 11}));
  EXPECT_EQ(IdsOf(query({{"diversity", 0.7}, {"candidates_limit", 3}}, {{"limit", 3}})), json({2, 11, 12}));
  EXPECT_EQ(IdsOf(query({{"diversity", 0.7}, {"candidates_limit", 6}}, {{"limit", 2}, {"offset", 1}})), json({4, 1}));
  EXPECT_EQ(query({{"diversity", nullptr}}, {{"limit", 9}}).size(), 6u);
  const auto refused = [&](const json& mmr, json more) {
    more["query"] = {{"nearest", {1, 0.5}}, {"mmr", mmr}};
    return Post("/collections/c/points/query", more);
  };
  for (const auto& [mmr, field] : {std::pair(json({{"diversity", 1.5}}), "query.mmr.diversity"),
                                   std::pair(json({{"candidates_limit", 100'000}}), "query.mmr.candidates_limit"),
                                   std::pair(json(7), "query.mmr")}) {
    const Reply reply = refused(mmr, {{"limit", 2}});
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.text.find(field), std::string::npos) << reply.text;
  }
  EXPECT_EQ(refused({{"diversity", 0.5}}, {{"limit", 900}, {"offset", 200}}).status, 400);
}

TEST_F(RestSearches, QueriesAreVectorsPointsExamplesOrNothing) {
  Fill("Cosine");
  const auto query = [&](const json& body) {
    const Reply reply = Post("/collections/c/points/query", body);
    EXPECT_EQ(reply.status, 200) << reply.text;
    return IdsOf(reply.result()["points"]);
  };
  EXPECT_EQ(query({{"query", {1, 0}}, {"limit", 2}}), json({1, 2}));
  EXPECT_EQ(query({{"query", {{"nearest", {0, 1}}}}, {"limit", 1}}), json({3}));
  EXPECT_EQ(query({{"query", 1}, {"limit", 1}}), json({2})) << "a point is no hit of itself";
  EXPECT_EQ(query({{"limit", 3}}), json({1, 2, 3}));
  EXPECT_EQ(query({{"query", {{"recommend", {{"positive", {1, json({0, 1})}}}}}}, {"limit", 1}}), json({2}));
  EXPECT_EQ(query({{"query", {{"recommend", {{"positive", {2}}, {"negative", {1}}}}}}, {"limit", 1}}), json({3}));
  const Reply recommended = Post("/collections/c/points/recommend", {{"positive", {1}}, {"limit", 2}});
  EXPECT_EQ(IdsOf(recommended.result()), json({2, 3})) << recommended.text;
  EXPECT_EQ(Post("/collections/c/points/recommend", {{"positive", {99}}, {"limit", 2}}).status, 404);
}

TEST_F(RestSearches, WhatAQueryCannotBeIsRefusedByName) {
  Fill("Cosine");
  for (const char* body :
       {R"({"query": {"fusion": "rrf"}})", R"({"query": {"formula": {"sum": []}}})",
        R"({"query": {"sample": "random"}})", R"({"query": {"context": []}})",
        R"({"query": [1, 0], "prefetch": [{"query": [1, 0]}]})", R"({"query": {"indices": [1], "values": [1]}})",
        R"({"query": [[1, 0], [0, 1]]})", R"({"query": {"recommend": {"positive": [1], "strategy": "best_score"}}})"}) {
    const Reply reply = Send("POST", "/collections/c/points/query", body);
    EXPECT_EQ(reply.status, 501) << body << reply.text;
    EXPECT_THAT(reply.error(), HasSubstr("is not supported")) << body;
  }
  for (const char* body : {R"({"query": [1, 0, 0]})", R"({"query": [1, 0], "limit": 0})", R"({"query": "one"})",
                           R"({"query": [1, 1e39]})", R"({"query": {"nearest": [1, null]}})", R"({"query": true})",
                           R"({"query": [1, 0], "params": {"hnsw_ef": -1}})"}) {
    const Reply reply = Send("POST", "/collections/c/points/query", body);
    EXPECT_EQ(reply.status, 400) << body << reply.text;
    EXPECT_THAT(reply.error(), HasSubstr("allowed")) << body;
  }
  EXPECT_EQ(Send("POST", "/collections/c/points/search", R"({"vector": [1, 0]})").status, 400) << "without a limit";
}

TEST_F(RestSearches, BatchesAnswerEachSearchInTurn) {
  Fill("Dot");
  const Reply searched = Post("/collections/c/points/search/batch",
                              {{"searches", {{{"vector", {1, 0}}, {"limit", 1}}, {{"vector", {0, 1}}, {"limit", 2}}}}});
  ASSERT_EQ(searched.status, 200) << searched.text;
  EXPECT_EQ(searched.result()[0].size(), 1u);
  EXPECT_EQ(searched.result()[1].size(), 2u);
  const Reply queried =
      Post("/collections/c/points/query/batch", {{"searches", {{{"query", {-1, 0}}, {"limit", 1}}, {{"query", 1}}}}});
  ASSERT_EQ(queried.status, 200) << queried.text;
  EXPECT_EQ(IdsOf(queried.result()[0]["points"]), json({4}));
  EXPECT_EQ(queried.result()[1]["points"].size(), 3u);
  const Reply wrong = Post("/collections/c/points/query/batch", {{"searches", {{{"query", {1, 0}}, {"limit", -1}}}}});
  EXPECT_THAT(wrong.error(), HasSubstr("searches[0].limit"));
}

}  // namespace
}  // namespace lightcone::server
