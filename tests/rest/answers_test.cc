// What answers over REST say beside their points: warnings of another model's vectors, relevance, and scores on the
// scale of a generation.
#include <thread>

#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/rest/rest_fixture.h"
#include "tests/support/embedding_models.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::DoubleNear;
using testing::HasSubstr;

class RestAnswers : public RestTest {
 protected:
  client::Client& Grpc() {
    if (!grpc_) {
      client::ClientOptions options;
      options.address = server_->bound().grpc;
      grpc_ = client::Client::Connect(options).value();
    }
    return *grpc_;
  }
  // Waits for the condition, which the server makes true; asking costs it little.
  template <typename Condition>
  static bool Await(Condition condition) {
    for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end; std::this_thread::yield()) {
      if (condition()) return true;
    }
    return false;
  }
  json Query(json body) {
    const Reply reply = Post("/collections/c/points/query", body);
    EXPECT_EQ(reply.status, 200) << reply.text;
    return reply.result();
  }
  // Unit vectors of two numbers, each with the class that its half of the circle is, but for every seventh.
  static json Point(int id) {
    const double angle = 0.02 * id;
    const int label = (angle < 1.5) != (id % 7 == 0) ? 1 : 2;
    return {{"id", id}, {"vector", {std::cos(angle), std::sin(angle)}}, {"payload", {{"class", label}}}};
  }
  void Validate() {
    v1::PutProbesRequest probes;
    probes.set_collection("c");
    probes.set_name("daily");
    probes.set_label_field("class");
    for (int i = 0; i < 100; ++i) {
      v1::Probe* probe = probes.add_probes();
      const bool first = i % 2 == 0;
      const double angle = first ? 0.005 * i : 2.9 - 0.005 * i;
      const float z[] = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
      v1::ProbeVector* vector = probe->add_vectors();
      vector->set_generation(1);
      client::SetVector(z, 2, vector->mutable_vector());
      probe->mutable_label()->set_integer(first ? 1 : 2);
    }
    const auto put = Grpc().PutProbes(probes);
    ASSERT_TRUE(put.ok()) << put.status();
    v1::ValidateRequest validate;
    validate.set_collection("c");
    validate.set_generation(1);
    const auto started = Grpc().ValidateGeneration(validate);
    ASSERT_TRUE(started.ok()) << started.status();
    v1::JobsGetRequest get;
    get.set_id(started->job());
    ASSERT_TRUE(Await([&] { return Grpc().GetJob(get)->job().state() >= v1::JOB_STATE_SUCCEEDED; }));
    ASSERT_EQ(Grpc().GetJob(get)->job().state(), v1::JOB_STATE_SUCCEEDED);
  }

  std::unique_ptr<client::Client> grpc_;
};

TEST_F(RestAnswers, WarnOfVectorsThatAnotherModelMade) {
  constexpr int kDimension = 48;
  ASSERT_EQ(Put("/collections/c", {{"vectors", {{"size", kDimension}, {"distance", "Cosine"}}}}).status, 200);
  const EmbeddingModel right("right", kDimension), other("rotated", kDimension);
  const auto points = [&](const EmbeddingModel& by, uint32_t first, uint32_t count) {
    json all = json::array();
    for (uint32_t i = first; i < first + count; ++i) {
      const int subject = static_cast<int>(i % EmbeddingModel::kSubjects);
      all.push_back({{"id", i}, {"vector", by.Embed(subject, i)}});
    }
    return all;
  };
  for (uint32_t i = 0; i < 6; ++i) Upsert(points(right, 500 * i, 500));
  v1::CollectionsGetRequest get;
  get.set_name("c");
  ASSERT_TRUE(Await([&] { return Grpc().GetCollection(get)->collection().model_watch_size() > 0; }));
  const auto upsert = [&](const json& all) {
    const Reply put = Put("/collections/c/points?wait=true", {{"points", all}});
    EXPECT_EQ(put.status, 200) << put.text;
    return put.result();
  };
  EXPECT_FALSE(upsert(points(right, 5'000, 100)).contains("warnings"));
  const json warned = upsert(points(other, 6'000, 100));
  ASSERT_TRUE(warned.contains("warnings")) << warned;
  EXPECT_THAT(warned["warnings"][0].get<std::string>(), HasSubstr("generation 1"));
  EXPECT_TRUE(warned.contains("operation_id"));
  json last;
  for (uint32_t i = 0; i < 100 && !last.contains("warnings"); ++i) {
    last = Query({{"query", other.Embed(static_cast<int>(i % 40), 9'000 + i)}, {"limit", 1}});
  }
  ASSERT_TRUE(last.contains("warnings"));
  EXPECT_THAT(last["warnings"][0].get<std::string>(), HasSubstr("queries"));
  EXPECT_EQ(last["points"].size(), 1u);
}

TEST_F(RestAnswers, TellRelevanceAndScoresOnAScaleOnceThatWasMeasured) {
  Create("Cosine");
  json points = json::array();
  for (int id = 0; id < 150; ++id) points.push_back(Point(id));
  Upsert(points);
  const json ask = {{"query", {1, 0}}, {"limit", 150}};
  EXPECT_FALSE(Query(ask)["points"][0]["lightcone"].contains("relevance"));
  const auto with = [&](json params) {
    json body = ask;
    body["params"] = std::move(params);
    return Post("/collections/c/points/query", body);
  };
  EXPECT_EQ(with({{"scale_generation", 1}}).status, 200) << "its own distances are on the scale as they are";
  EXPECT_EQ(with({{"relevance_min", 0.5}}).status, 409);
  EXPECT_THAT(with({{"relevance_min", 0.5}}).error(), HasSubstr("relevance_min"));
  EXPECT_EQ(with({{"scale_generation", 2}}).status, 400);
  EXPECT_EQ(with({{"scale_generation", -1}}).status, 400);
  EXPECT_EQ(with({{"relevance_min", 1.5}}).status, 400);
  Validate();

  const json all = Query(ask);
  EXPECT_FALSE(all.contains("scale_generation"));
  size_t relevant = 0;
  for (const json& point : all["points"]) {
    const double chance = point["lightcone"]["relevance"].get<double>();
    EXPECT_TRUE(chance >= 0 && chance <= 1) << chance;
    relevant += chance >= 0.6;
  }
  EXPECT_GT(all["points"][0]["lightcone"]["relevance"].get<double>(), 0.7);
  EXPECT_TRUE(relevant > 10 && relevant < 150) << relevant;
  EXPECT_EQ(with({{"relevance_min", 0.6}}).result()["points"].size(), relevant);

  json bounded = ask;
  bounded["score_threshold"] = 0.8;
  const size_t within = Query(bounded)["points"].size();
  bounded["params"] = {{"scale_generation", 1}};
  const json scaled = Query(bounded);
  EXPECT_EQ(scaled["scale_generation"], 1);
  EXPECT_EQ(scaled["points"].size(), within) << "its own queries are on the scale as they are";
  for (const json& point : scaled["points"]) {
    EXPECT_THAT(point["score"].get<double>(), DoubleNear(1 - point["lightcone"]["distance"].get<double>(), 1e-9));
  }
}

}  // namespace
}  // namespace lightcone::server
