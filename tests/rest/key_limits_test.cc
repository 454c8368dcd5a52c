// Limits of a key over HTTP, and the rows and bytes that a whole server counts, by gRPC and REST together.
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "server/app/serve.h"
#include "server/auth/key_file.h"
#include "tests/http/raw_client.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string LineOfLimits(const std::string& name, const auth::CallLimits& limits) {
  auth::KeyEntry entry;
  entry.name = name;
  entry.hash = auth::HashOf(name + "-key");
  entry.grant = {auth::kAdmin, {"*"}};
  entry.limits = limits;
  return auth::LineOf(entry) + "\n";
}

// Rates are so low, and writes so large, that no time which a test takes brings anything back.
class RestKeyLimits : public testing::Test {
 protected:
  void Serve(const std::string& name, const auth::CallLimits& limits) {
    const std::string keys = folder_ / "keys";
    ASSERT_TRUE(WriteFileAtomically(keys, LineOfLimits("free", {}) + LineOfLimits(name, limits)).ok());
    ServerConfig config = config_;
    config.listen = config.http_listen = "127.0.0.1:0";
    config.auth.keys_file = keys;
    config.engine.data_folder = folder_ / "data";
    config.engine.store.memory_bytes = 32 << 20;
    config.engine.live_recall.sample_share = 0;
    auto server = RunningServer::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<httplib::Client>("http://" + server_->bound().http);
    client_->set_read_timeout(60);
    client_->set_keep_alive(true);
    ASSERT_EQ(Send("free", "PUT", "/collections/c", {{"vectors", {{"size", 2}, {"distance", "Dot"}}}}).status, 200);
  }

  httplib::Response Send(const std::string& name, const std::string& method, const std::string& path,
                         const json& body = nullptr) {
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.set_header("api-key", name + "-key");
    if (!body.is_null()) {
      request.body = body.dump();
      request.set_header("Content-Type", "application/json");
    }
    const httplib::Result result = client_->send(request);
    return result ? *result : httplib::Response{};
  }

  httplib::Response UpsertPoints(const std::string& name, int count) {
    json points = json::array();
    for (int i = 1; i <= count; ++i) points.push_back({{"id", i}, {"vector", {i, 1}}});
    return Send(name, "PUT", "/collections/c/points?wait=true", {{"points", points}});
  }

  grpc::Status UpsertByWire(const std::string& name, int count) {
    v1::UpsertRequest request;
    request.set_collection("c");
    request.set_generation(1);
    for (int i = 1; i <= count; ++i) {
      v1::Item* const item = request.add_items();
      item->mutable_id()->set_number(static_cast<uint64_t>(i));
      for (const float value : {1.0f, 2.0f}) item->mutable_vector()->mutable_floats()->add_values(value);
    }
    grpc::ClientContext context;
    context.AddMetadata("api-key", name + "-key");
    v1::UpsertResponse response;
    const auto channel = grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials());
    return v1::Retrieval::NewStub(channel)->Upsert(&context, request, &response);
  }

  TemporaryFolder folder_;
  ServerConfig config_;
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(RestKeyLimits, CallsInFlightAreGivenBackBeforeTheAnswerOnOneConnectionAndOnMany) {
  Serve("limited", {.calls_in_flight_max = 1});
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Send("limited", "GET", "/collections/c").status, 200) << i;
    EXPECT_EQ(Send("limited", "GET", "/collections/none").status, 404) << i;
    EXPECT_EQ(Send("limited", "POST", "/collections/c/points/search", {{"limit", 1}}).status, 400) << i;
    EXPECT_EQ(Send("limited", "GET", "/metrics").status, 200) << i;
  }
}

TEST_F(RestKeyLimits, ABodyThatDoesNotComeHoldsAPlaceUntilItsConnectionEnds) {
  Serve("limited", {.calls_in_flight_max = 1});
  const std::string& address = server_->bound().http;
  auto slow = std::make_unique<RawClient>(std::stoi(address.substr(address.rfind(':') + 1)));
  slow->Send(
      "POST /collections/c/points/search HTTP/1.1\r\nHost: localhost\r\napi-key: limited-key\r\n"
      "Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_THAT(slow->ReadAnswer(/*has_body=*/false), HasSubstr("100 Continue")) << "the server waits for the body";
  const httplib::Response refused = Send("limited", "GET", "/collections/c");
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("its calls_in_flight_max; allowed: 1 calls in flight"));
  EXPECT_EQ(refused.get_header_value("Retry-After"), "1");
  slow.reset();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (Send("limited", "GET", "/collections/c").status == 429 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(Send("limited", "GET", "/collections/c").status, 200);
}

TEST_F(RestKeyLimits, ARefusalIs429WithTheTimeToComeAgain) {
  Serve("limited", {.rows_per_second = 1});
  ASSERT_EQ(UpsertPoints("limited", 5'000).status, 200) << "more than a second brings passes once";
  const httplib::Response refused = UpsertPoints("limited", 1);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("key 'limited' has used up its rows_per_second; allowed: 1 rows a second"));
  const int seconds = std::stoi(refused.get_header_value("Retry-After"));
  EXPECT_THAT(seconds, testing::AllOf(testing::Gt(1'000), testing::Le(5'000)));
  // Over gRPC it is the same key.
  const grpc::Status by_wire = UpsertByWire("limited", 1);
  EXPECT_EQ(by_wire.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(by_wire.error_message(), HasSubstr("key 'limited' has used up its rows_per_second"));
  EXPECT_THAT(by_wire.error_details(), HasSubstr("google.rpc.RetryInfo"));
  // So are reads of items. Calls without rows go on, and so do other keys and health.
  const json vector = {1, 0};
  EXPECT_EQ(Send("limited", "POST", "/collections/c/points/search", {{"vector", vector}, {"limit", 1}}).status, 429);
  EXPECT_EQ(Send("limited", "POST", "/collections/c/points/scroll", {{"limit", 1}}).status, 429);
  EXPECT_EQ(Send("limited", "GET", "/collections/c/points/1").status, 429);
  EXPECT_EQ(Send("limited", "POST", "/collections/c/points/delete?wait=true", {{"points", {1}}}).status, 200);
  EXPECT_EQ(Send("limited", "GET", "/healthz").status, 200);
  EXPECT_EQ(UpsertPoints("free", 3).status, 200);
  const std::string metrics = Send("free", "GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("lightcone_auth_limited_total{key=\"limited\",limit=\"rows_per_second\"} 5"));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("key=\"free\"")));
}

TEST_F(RestKeyLimits, BytesOfAnswersCount) {
  Serve("limited", {.bytes_per_second = 1'024});
  ASSERT_EQ(UpsertPoints("free", 5'000).status, 200);
  const json scroll = {{"limit", 5'000}, {"with_vector", true}};
  const httplib::Response all = Send("limited", "POST", "/collections/c/points/scroll", scroll);
  ASSERT_EQ(all.status, 200) << "an answer is given in whole";
  const httplib::Response refused = Send("limited", "POST", "/collections/c/points/scroll", scroll);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("its bytes_per_second; allowed: 1024 bytes a second"));
  EXPECT_EQ(UpsertPoints("limited", 1).status, 429);
}

TEST_F(RestKeyLimits, LimitsOfTheServerHoldForWritesOfAllCallersAndForNothingElse) {
  config_.write_rows_per_second = 1;
  Serve("limited", {.rows_per_second = 1'000'000});
  ASSERT_TRUE(UpsertByWire("limited", 5'000).ok());
  for (const char* name : {"free", "limited"}) {
    const httplib::Response refused = UpsertPoints(name, 1);
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("the server has used up its limits.write_rows_per_second; allowed: 1 rows"));
    EXPECT_EQ(UpsertByWire(name, 1).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Send(name, "POST", "/collections/c/points/scroll", {{"limit", 1}}).status, 200);
    EXPECT_EQ(Send(name, "POST", "/collections/c/points/delete?wait=true", {{"points", {1}}}).status, 200);
    EXPECT_EQ(Send(name, "GET", "/healthz").status, 200);
  }
  EXPECT_THAT(Send("free", "GET", "/metrics").body,
              HasSubstr("lightcone_writes_limited_total{limit=\"write_rows_per_second\"} 4"));
}

TEST_F(RestKeyLimits, ABadWriteTakesNoRows) {
  Serve("limited", {.rows_per_second = 1});
  json points = json::array();
  for (int i = 1; i <= 100; ++i) points.push_back({{"id", 1}, {"vector", {1, 1}}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Send("limited", "PUT", "/collections/none/points", {{"points", points}}).status, 404) << i;
  }
  EXPECT_EQ(UpsertPoints("limited", 50).status, 200);
  EXPECT_EQ(UpsertPoints("limited", 50).status, 429);
}

}  // namespace
}  // namespace lightcone::server
