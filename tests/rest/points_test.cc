// Points over REST: ids, payloads, batches, pages, deletions.
#include <thread>

#include "absl/time/clock.h"
#include "base/status.h"
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kUuid[] = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";

class RestPoints : public RestTest {
 protected:
  void SetUp() override {
    RestTest::SetUp();
    Create("Dot");
  }
};

TEST_F(RestPoints, IdsAreNumbersAndUuidsInAnyForm) {
  Upsert(json::parse(R"([{"id": 18446744073709551615, "vector": [1, 0]},
                         {"id": "5C56C79369F34FBF87E6C4BF54C28C26", "vector": [0, 1], "payload": {"a": 1}}])"));
  for (const char* form : {"5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "5C56C793-69F3-4FBF-87E6-C4BF54C28C26",
                           "5c56c79369f34fbf87e6c4bf54c28c26", "urn:uuid:5c56c793-69f3-4fbf-87e6-c4bf54c28c26"}) {
    const Reply got = Post("/collections/c/points", {{"ids", {form}}, {"with_vector", true}});
    ASSERT_EQ(got.result().size(), 1u) << got.text;
    EXPECT_EQ(got.result()[0]["id"], kUuid) << form;
    EXPECT_EQ(got.result()[0]["vector"], json({0.0, 1.0}));
    EXPECT_EQ(got.result()[0]["payload"], json({{"a", 1}}));
  }
  const Reply one = Get("/collections/c/points/18446744073709551615");
  EXPECT_EQ(one.result()["id"], 18446744073709551615u);
  EXPECT_EQ(one.result()["lightcone"]["generation"], 1);
  EXPECT_EQ(Get(std::string("/collections/c/points/") + kUuid).status, 200);
  EXPECT_EQ(Get("/collections/c/points/7").status, 404);
  EXPECT_EQ(Get("/collections/c/points/seven").status, 400);
  for (const char* id : {"\"seven\"", "-1", "1.5", "18446744073709551616", "true", "\"5c56c793-69f3\""}) {
    const Reply refused =
        Send("PUT", "/collections/c/points", std::string(R"({"points": [{"vector": [1, 0], "id": )") + id + "}]}");
    EXPECT_EQ(refused.status, 400) << id;
    EXPECT_THAT(refused.error(), HasSubstr("allowed")) << id;
  }
}

TEST_F(RestPoints, PayloadsKeepTheDigitsOfTheirNumbers) {
  const std::string points =
      R"({"points": [{"id": 1, "vector": [1, 0], "payload": {"n": 9007199254740993,
          "u": 18446744073709551615, "t": "ü\n"}}]})";
  EXPECT_EQ(Send("PUT", "/collections/c/points", points).status, 200);
  const std::string text = Get("/collections/c/points/1").text;
  EXPECT_THAT(text, HasSubstr("9007199254740993"));
  EXPECT_THAT(text, HasSubstr("18446744073709551615"));
  EXPECT_EQ(Get("/collections/c/points/1").result()["payload"]["t"], "ü\n");
}

TEST_F(RestPoints, PointsExpireWhereTheySayWhen) {
  Upsert(json::parse(R"([{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1], "ttl_seconds": 3600},
                         {"id": 3, "vector": [0, 1], "ttl_seconds": 0.001}])"));
  EXPECT_FALSE(Get("/collections/c/points/1").result()["lightcone"].contains("expires"));
  EXPECT_THAT(Get("/collections/c/points/2").result()["lightcone"].value("expires", ""), HasSubstr("T"));
  const absl::Time gone = absl::Now() + absl::Milliseconds(2);
  while (absl::Now() < gone) std::this_thread::yield();
  EXPECT_EQ(Get("/collections/c/points/3").status, 404);
  for (const char* ttl : {"-1", "\"3600\"", "1e99"}) {
    const Reply refused = Send("PUT", "/collections/c/points",
                               StrCat(R"({"points": [{"id": 4, "vector": [1, 0], "ttl_seconds": )", ttl, "}]}"));
    EXPECT_EQ(refused.status, 400) << ttl;
    EXPECT_THAT(refused.error(), HasSubstr("points[0].ttl_seconds")) << ttl;
  }
  const json batch = {{"ids", {5}}, {"vectors", {{1, 0}}}, {"ttl_seconds", 60}};
  EXPECT_EQ(Put("/collections/c/points", {{"batch", batch}}).status, 200);
  EXPECT_TRUE(Get("/collections/c/points/5").result()["lightcone"].contains("expires"));
}

TEST_F(RestPoints, AVectorIsReplacedBesideItsPayloadAndItsTime) {
  Upsert(json::parse(R"([{"id": 1, "vector": [1, 0], "payload": {"a": 1}, "ttl_seconds": 3600},
                         {"id": 2, "vector": [1, 0], "payload": {"b": [2]}}])"));
  const json before = Get("/collections/c/points/1").result();
  const Reply done = Send("PUT", "/collections/c/points/vectors?wait=true",
                          R"({"points": [{"id": 1, "vector": [0, 2]}, {"id": 2, "vector": {"": [3, 3]}}]})");
  ASSERT_EQ(done.status, 200) << done.text;
  EXPECT_EQ(done.result()["status"], "completed");
  const json after = Get("/collections/c/points/1").result();
  EXPECT_EQ(after["vector"], json({0.0, 2.0}));
  EXPECT_EQ(after["payload"], json({{"a", 1}}));
  EXPECT_EQ(after["lightcone"]["expires"], before["lightcone"]["expires"]);
  EXPECT_EQ(Get("/collections/c/points/2").result()["payload"], json({{"b", {2}}}));
  EXPECT_FALSE(Get("/collections/c/points/2").result()["lightcone"].contains("expires"));
  const Reply missing = Send("PUT", "/collections/c/points/vectors",
                             R"({"points": [{"id": 1, "vector": [9, 9]}, {"id": 7, "vector": [9, 9]}]})");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.error(), HasSubstr("no item 7"));
  EXPECT_EQ(Get("/collections/c/points/1").result()["vector"], json({0.0, 2.0})) << "a batch is written whole or not";
  for (const char* body : {R"({"points": []})", R"({})", R"({"points": [{"id": 1}]})", R"({"points": 1})",
                           R"({"points": [{"id": 1, "vector": [1, 2], "payload": {}}]})",
                           R"({"points": [{"id": 1, "vector": [1, 2], "ttl_seconds": 5}]})",
                           R"({"points": [{"id": 1, "vector": [1, 2]}, {"id": 1, "vector": [1, 3]}]})",
                           R"({"points": [{"id": 1, "vector": [1, 2, 3]}]})"}) {
    EXPECT_EQ(Send("PUT", "/collections/c/points/vectors", body).status, 400) << body;
  }
}

TEST_F(RestPoints, VectorsAndPayloadsThatChangeTogetherLoseNeither) {
  Upsert(json::parse(R"([{"id": 1, "vector": [0, 0], "payload": {"n": 0}}])"));
  constexpr int kChanges = 60;
  std::thread payloads([this] {
    httplib::Client client("127.0.0.1", Port());
    for (int i = 1; i <= kChanges; ++i) {
      const std::string body = StrCat(R"({"payload": {"n": )", i, R"(, "k)", i, R"(": 1}, "points": [1]})");
      const auto done = client.Post("/collections/c/points/payload", body, "application/json");
      ASSERT_TRUE(done && done->status == 200);
    }
  });
  for (int i = 1; i <= kChanges; ++i) {
    const Reply done =
        Send("PUT", "/collections/c/points/vectors", StrCat(R"({"points": [{"id": 1, "vector": [)", i, ", 1]}]}"));
    EXPECT_EQ(done.status, 200) << done.text;
  }
  payloads.join();
  const json point = Get("/collections/c/points/1").result();
  EXPECT_EQ(point["payload"]["n"], kChanges);
  EXPECT_EQ(point["payload"].size(), size_t{kChanges} + 1) << "every change of the payload stays";
  EXPECT_EQ(point["vector"], json({double{kChanges}, 1.0}));
}

TEST_F(RestPoints, ABatchIsColumnsOfIdsVectorsAndPayloads) {
  const Reply put =
      Put("/collections/c/points?wait=true",
          {{"batch", {{"ids", {1, 2}}, {"vectors", {{1, 0}, {0, 1}}}, {"payloads", {{{"a", 1}}, nullptr}}}}});
  EXPECT_EQ(put.result()["status"], "completed") << put.text;
  EXPECT_GT(put.result()["operation_id"], 0);
  const Reply got = Post("/collections/c/points", {{"ids", {2, 1, 3}}});
  EXPECT_EQ(IdsOf(got.result()), json({2, 1}));
  EXPECT_EQ(got.result()[0]["payload"], json::object());
  EXPECT_FALSE(got.result()[0].contains("vector"));
  const Reply uneven = Put("/collections/c/points", {{"batch", {{"ids", {1, 2}}, {"vectors", {{1, 0}}}}}});
  EXPECT_EQ(uneven.status, 400);
  EXPECT_THAT(uneven.error(), HasSubstr("batch.vectors"));
}

TEST_F(RestPoints, NamesOfVectorsAreGenerations) {
  Upsert(json::parse(R"([{"id": 1, "vector": {"gen-1": [1, 0]}}, {"id": 2, "vector": {"": [0, 1]}}])"));
  const Reply got = Post("/collections/c/points", {{"ids", {1}}, {"with_vector", {"gen-1"}}});
  EXPECT_EQ(got.result()[0]["vector"], json({{"gen-1", {1.0, 0.0}}})) << got.text;
  const Reply unknown = Put("/collections/c/points", {{"points", {{{"id", 1}, {"vector", {{"gen-2", {1, 0}}}}}}}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.error(), HasSubstr("gen-1"));
  for (const char* vector :
       {R"({"a": [1, 0], "b": [1, 0]})", R"({"indices": [1], "values": [1]})", "[[1, 0], [0, 1]]"}) {
    EXPECT_EQ(Send("PUT", "/collections/c/points", std::string(R"({"points": [{"id": 1, "vector": )") + vector + "}]}")
                  .status,
              501)
        << vector;
  }
  const Reply longer = Put("/collections/c/points", {{"points", {{{"id", 1}, {"vector", {1, 2, 3}}}}}});
  EXPECT_EQ(longer.status, 400);
}

TEST_F(RestPoints, PagesBeginAtAnIdWithNumbersBeforeNames) {
  Upsert(json::parse(R"([{"id": 3, "vector": [1, 0]}, {"id": 256, "vector": [1, 0]}, {"id": 511, "vector": [1, 0]},
                         {"id": "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "vector": [0, 1]},
                         {"id": "00000000-0000-0000-0000-000000000000", "vector": [0, 1]}])"));
  json ids = json::array(), offset;
  int pages = 0;
  do {
    const Reply page = Post("/collections/c/points/scroll", {{"limit", 2}, {"offset", offset}});
    ASSERT_EQ(page.status, 200) << page.text;
    for (const json& id : IdsOf(page.result()["points"])) ids.push_back(id);
    offset = page.result()["next_page_offset"];
  } while (!offset.is_null() && ++pages < 10);
  EXPECT_EQ(ids, json({3, 256, 511, "00000000-0000-0000-0000-000000000000", kUuid}));
  const auto from = [&](const json& id) {
    return IdsOf(Post("/collections/c/points/scroll", {{"offset", id}}).result()["points"]);
  };
  EXPECT_EQ(from(0).size(), 5u);
  EXPECT_EQ(from(4)[0], 256) << "an offset need not be a point";
  EXPECT_EQ(from(256)[0], 256) << "an offset is the first point of the page";
  EXPECT_EQ(from(257)[0], 511);
  EXPECT_EQ(from(kUuid), json({kUuid}));
  EXPECT_EQ(Post("/collections/c/points/scroll", {{"limit", 0}}).status, 400);
}

TEST_F(RestPoints, PointsAreDeletedByIdsAndByFilter) {
  json points = json::array();
  for (int i = 0; i < 20; ++i) points.push_back({{"id", i}, {"vector", {1, i}}, {"payload", {{"even", i % 2 == 0}}}});
  Upsert(points);
  const json even = {{"must", {{{"key", "even"}, {"match", {{"value", true}}}}}}};
  EXPECT_EQ(Post("/collections/c/points/count", {{"filter", even}}).result()["count"], 10);
  EXPECT_EQ(Post("/collections/c/points/delete?wait=true", {{"filter", even}}).result()["status"], "completed");
  EXPECT_EQ(Post("/collections/c/points/count", json::object()).result()["count"], 10);
  EXPECT_EQ(Post("/collections/c/points/delete", {{"points", {1, 3}}}).status, 200);
  EXPECT_EQ(Post("/collections/c/points/count", {{"exact", true}}).result()["count"], 8);
  EXPECT_EQ(Post("/collections/c/points/delete", json::object()).status, 400);
  EXPECT_EQ(Post("/collections/none/points/delete", {{"points", {1}}}).status, 404);
}

}  // namespace
}  // namespace lightcone::server
