// The console's JSON API without a browser: who may call, what it answers, what it refuses.
#include "server/http/console_api.h"

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/console_json.h"
#include "server/http/history.h"
#include "server/http/picture.h"
#include "server/http/same_origin.h"
#include "tests/rpc/fake_engine.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

using Headers = std::map<std::string, std::string>;

Headers With(Headers more) {
  more.emplace("x-lightcone-console", "1");
  more.emplace("host", "127.0.0.1:7701");
  return more;
}

TEST(SameOrigin, PagesOfThisServerAndProgramsMayCall) {
  for (const char* host :
       {"127.0.0.1:7701", "localhost:7701", "LOCALHOST", "[::1]:7701", "[::1]", "10.0.0.7", "vectors.example:80"}) {
    EXPECT_TRUE(CheckSameOrigin(With({{"host", host}}), HostNames("other.example, vectors.example:7701")).ok()) << host;
  }
  EXPECT_TRUE(CheckSameOrigin(With({{"origin", "http://127.0.0.1:7701"}, {"sec-fetch-site", "same-origin"}}), {}).ok());
  EXPECT_TRUE(CheckSameOrigin(With({{"origin", "https://127.0.0.1:7701"}}), {}).ok()) << "behind a proxy with TLS";
}

TEST(SameOrigin, PagesOfOthersMayNot) {
  const std::vector<std::pair<Headers, std::string>> refused = {
      {{{"host", "127.0.0.1:7701"}}, "X-Lightcone-Console"},
      {With({{"host", "evil.example:7701"}}), "Host"},
      {With({{"host", "127.0.0.1.evil.example"}}), "Host"},
      {With({{"host", ""}}), "Host"},
      {With({{"origin", "http://evil.example"}}), "Origin"},
      {With({{"origin", "http://127.0.0.1:7702"}}), "Origin"},
      {With({{"origin", "null"}}), "Origin"},
      {With({{"sec-fetch-site", "cross-site"}}), "Sec-Fetch-Site"},
      {With({{"sec-fetch-site", "same-site"}}), "Sec-Fetch-Site"},
  };
  for (const auto& [headers, named] : refused) {
    const absl::Status status = CheckSameOrigin(headers, HostNames("vectors.example"));
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << named;
    EXPECT_THAT(MessageOf(status), HasSubstr(named));
  }
}

class ActingEngine : public FakeEngine {
 public:
  absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall& call) override {
    activated.push_back(call);
    if (call.generation == 9) return NotFound("no generation 9");
    return ActivateAnswer{};
  }
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override {
    CollectionStatus status;
    status.name = "photos";
    status.items = 10;
    status.items_by_generation = {{1, 10}};
    return std::vector<CollectionStatus>{status};
  }
  absl::StatusOr<RawInput> GetInput(const std::string&, const ItemId& id) override {
    if (id.value == std::variant<uint64_t, std::string>(uint64_t{18446744073709551615u})) return RawInput("\x89PNG...");
    return RawInput("no picture");
  }
  std::vector<ActivateCall> activated;
};

class ConsoleApiTest : public testing::Test {
 protected:
  void SetUp() override { Start(false); }
  void Start(bool read_only) {
    ConsoleOptions options{read_only, {}, "1.2.3", {}};
    options.observe = [this](std::string_view method, const absl::Status& status, absl::Duration) {
      observed_.push_back(StrCat(method, " ", absl::StatusCodeToString(status.code())));
    };
    api_ = std::make_unique<ConsoleApi>(std::move(options), &metrics_);
    api_->SetEngine(&engine_, "127.0.0.1:7700");
  }
  HttpAnswer Get(const std::string& path, std::map<std::string, std::string> query = {}) {
    return api_->Handle({"GET", path, std::move(query), With({}), ""});
  }
  HttpAnswer Post(const std::string& path, const std::string& body) {
    return api_->Handle({"POST", path, {}, With({}), body});
  }
  static std::string CodeOf(const HttpAnswer& answer) {
    return json::parse(answer.body, nullptr, false)["error"].value("code", "");
  }

  Metrics metrics_{"1"};
  ActingEngine engine_;
  std::vector<std::string> observed_;
  std::unique_ptr<ConsoleApi> api_;
};

TEST_F(ConsoleApiTest, TheOverviewTellsVersionCollectionsAndCalls) {
  for (const char* method : {"Retrieval/Search", "Retrieval/Get"}) metrics_.ExpectCalls(method);
  metrics_.RecordCall("Retrieval/Search", "OK", absl::Milliseconds(3));
  metrics_.RecordCall("Retrieval/Search", "OK", absl::Milliseconds(30));
  const json page = json::parse(Get("/api/v1/overview").body);
  EXPECT_EQ(page["version"], "1.2.3");
  EXPECT_EQ(page["collections"][0]["name"], "photos");
  ASSERT_EQ(page["calls"].size(), 1u) << "methods that nobody called have counters of faults alone";
  EXPECT_EQ(page["calls"][0]["codes"], json({{"OK", 2}}));
  uint64_t before = 0;
  for (const json& bucket : page["calls"][0]["buckets"]) {
    EXPECT_GE(bucket[1], before);
    before = bucket[1];
    if (bucket[0] == 0.005) {
      EXPECT_EQ(bucket[1], 1);
    }
  }
  EXPECT_EQ(before, 2u);
}

TEST_F(ConsoleApiTest, AnActivationNamesWhatThePageShowedAsActive) {
  EXPECT_EQ(Post("/api/v1/collections/photos/activate", R"({"generation": 2})").status, 400);
  EXPECT_TRUE(engine_.activated.empty());
  const HttpAnswer done =
      Post("/api/v1/collections/photos/activate",
           R"({"generation": 2, "expect_active": 1, "force": true, "reason": "why", "request_id": "a"})");
  EXPECT_EQ(done.status, 200) << done.body;
  ASSERT_EQ(engine_.activated.size(), 1u);
  const ActivateCall& call = engine_.activated[0];
  EXPECT_EQ(call.collection, "photos");
  EXPECT_EQ(call.generation, 2u);
  EXPECT_EQ(call.expect_active, 1u);
  EXPECT_TRUE(call.force);
  EXPECT_EQ(call.reason, "why");
  EXPECT_EQ(call.operator_name, "the console");
  EXPECT_EQ(call.request_id, "a");
  const HttpAnswer missing = Post("/api/v1/collections/photos/activate", R"({"generation": 9, "expect_active": 1})");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(CodeOf(missing), "NOT_FOUND");
}

TEST_F(ConsoleApiTest, WhatAnOperatorDoesIsObservedWithItsCodeAndNothingElseIs) {
  const std::string actions = "/api/v1/collections/photos/";
  Post(actions + "activate", R"({"generation": 2, "expect_active": 1})");
  Post(actions + "activate", R"({"generation": 9, "expect_active": 1})");
  Post(actions + "take-up", "{}");
  Post(actions + "explode", "{}");
  Post(actions + "search", "{}");
  Get("/api/v1/overview");
  Start(true);
  Post(actions + "rollback", R"({"expect_active": 1})");
  EXPECT_THAT(observed_,
              testing::ElementsAre("Console/activate OK", "Console/activate NOT_FOUND",
                                   "Console/take-up INVALID_ARGUMENT", "Console/rollback PERMISSION_DENIED"));
  for (const std::string& one : observed_) {
    EXPECT_THAT(ConsoleMethods(), testing::Contains(one.substr(0, one.find(' '))));
  }
}

TEST_F(ConsoleApiTest, AReadOnlyConsoleDoesNothing) {
  Start(true);
  for (const char* action : {"activate", "rollback", "backfill-start", "backfill-pause", "validate", "retire",
                             "take-up", "canary-end", "job-cancel"}) {
    const HttpAnswer refused =
        Post(StrCat("/api/v1/collections/photos/", action), R"({"generation": 2, "expect_active": 1})");
    EXPECT_EQ(refused.status, 403) << action;
  }
  EXPECT_TRUE(engine_.activated.empty());
  EXPECT_EQ(Get("/api/v1/overview").status, 200);
}

TEST_F(ConsoleApiTest, BadRequestsAreRefusedByName) {
  const std::string search = "/api/v1/collections/photos/search";
  for (const char* body : {"", "[]", "{", "{}", R"({"vector": "1"})", R"({"vector": [1, "a"]})", R"({"item": 3})",
                           R"({"item": {"number": "12x"}})", R"({"item": {"number": "18446744073709551616"}})",
                           R"({"vector": [[[[[[1]]]]]]})"}) {
    const HttpAnswer refused = Post(search, body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_EQ(CodeOf(refused), "INVALID_ARGUMENT") << body;
  }
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"k", "-1"}, {"k", "1e3"}, {"ef", "x"}, {"k", "201"}}) {
    HttpRequest request{"POST", search, {{key, value}}, With({}), R"({"vector": [1]})"};
    EXPECT_EQ(api_->Handle(request).status, 400) << key << value;
  }
  for (const char* path : {"/api/v1", "/api/v1/", "/api/v1/collections", "/api/v1/collections/", "/api/v1/nothing",
                           "/api/v1/collections/photos/nothing", "/api/v1/collections/photos/generations"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
  EXPECT_EQ(Get("/api/v1/collections/photos/generations/two").status, 400);
  EXPECT_EQ(Post("/api/v1/collections/photos/activate", std::string(100, '[')).status, 400);
  EXPECT_EQ(Post(search, std::string(5 << 20, ' ')).status, 400);
  EXPECT_EQ(Post("/api/v1/collections/photos/explode", "{}").status, 404);
  EXPECT_EQ(Post("/api/v1/collections/photos/take-up", "{}").status, 400);
}

TEST_F(ConsoleApiTest, PicturesOfStoredInputsAreOnlyPictures) {
  const HttpAnswer picture = Get("/api/v1/collections/photos/input", {{"number", "18446744073709551615"}});
  EXPECT_EQ(picture.status, 200) << picture.body;
  EXPECT_EQ(picture.type, "image/png");
  EXPECT_EQ(Get("/api/v1/collections/photos/input", {{"name", "a"}}).status, 409);
  EXPECT_EQ(Get("/api/v1/collections/photos/input").status, 400);
}

TEST_F(ConsoleApiTest, WithoutAnEngineItSaysSoAndOthersAreRefusedFirst) {
  api_->SetEngine(nullptr, "");
  EXPECT_EQ(Get("/api/v1/overview").status, 503);
  EXPECT_EQ(api_->Handle({"GET", "/api/v1/overview", {}, {}, ""}).status, 403);
}

TEST(PictureTest, ATensorBecomesABitmap) {
  const auto picture = PictureOf(TensorInput{{1, 2, 3}, {0, 1, 2, 3, 4, 5}});
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->type, "image/bmp");
  ASSERT_EQ(picture->bytes.size(), 54u + 2 * 12);
  EXPECT_EQ(picture->bytes.substr(0, 2), "BM");
  const auto at = [&](size_t i) { return static_cast<int>(static_cast<uint8_t>(picture->bytes[54 + i])); };
  EXPECT_EQ(at(0), 153) << "the lowest row comes first: 3 of 5";
  EXPECT_EQ(at(6), 255);
  EXPECT_EQ(at(12), 0) << "then the upper row";
  for (const TensorInput& wrong : {TensorInput{{2, 2, 2}, std::vector<float>(8)}, TensorInput{{1, 2, 2}, {1}},
                                   TensorInput{{4}, {1, 2, 3, 4}}, TensorInput{{1, 0, 3}, {}}}) {
    EXPECT_EQ(PictureOf(wrong).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  const auto odd = PictureOf(TensorInput{{1, 1, 3}, {NAN, INFINITY, 1}});
  EXPECT_TRUE(odd.ok()) << "values that are none are black";
}

TEST(PictureTest, ATextIsNoPicture) {
  EXPECT_EQ(PictureOf(TextInput{"a text"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(HistoryTest, KeepsTheWholeTimeInABoundedNumberOfPoints) {
  ActingEngine engine;
  History history;
  const absl::Time start = absl::UnixEpoch();
  for (int i = 0; i < 5'000; ++i) history.Sample(engine, start + absl::Seconds(5 * i));
  const std::vector<History::Point> points = history.Of("photos");
  EXPECT_LT(points.size(), History::kPointsMax);
  EXPECT_GE(points.size(), History::kPointsMax / 4);
  EXPECT_EQ(points.front().time, start);
  EXPECT_GT(points.back().time, start + absl::Seconds(5 * 4'900));
  for (size_t i = 1; i < points.size(); ++i) EXPECT_LT(points[i - 1].time, points[i].time);
  EXPECT_TRUE(history.Of("gone").empty());
}

}  // namespace
}  // namespace lightcone::server
