// /metrics, /healthz, /readyz over real HTTP, of a whole server with an engine that a test decides.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_split.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "server/http/console_api.h"
#include "server/metrics/metrics.h"
#include "server/rpc/server.h"
#include "tests/http/raw_client.h"
#include "tests/rpc/fake_engine.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;

class EngineWithGallery : public FakeEngine {
 public:
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override {
    CollectionStatus status;
    status.name = "my \"gallery\"\n";
    status.active_generation = 2;
    status.items = 30;
    status.items_by_generation = {{1, 10}, {2, 20}};
    status.segments = {
        {1, 1, "growing", "float32", 5, 1, 500}, {1, 2, "hnsw", "int8", 5, 0, 900}, {1, 3, "hnsw", "int8", 6, 2, 901}};
    status.builds_total = 3;
    return std::vector<CollectionStatus>{status};
  }
  absl::StatusOr<LiveRecallStatus> GetLiveRecall(const std::string&) override {
    LiveRecallStatus status;
    status.samples = 4;
    status.recall = {{2, 1, "hnsw", "none", 40, 30, 20, 10}};
    status.spreads = {{2, 1, "distance", 4, 2.0, {0.1, 0.5, 0.9}, 0.25}, {2, 1, "uncertainty", 4, 2.0, {1, 2, 3}, 0.5}};
    return status;
  }
  absl::StatusOr<BackfillStatus> GetBackfill(const std::string&) override {
    BackfillStatus status;
    status.state = BackfillState::kRunning;
    status.items_left = 10;
    status.started = absl::FromUnixSeconds(1'000);
    return status;
  }
  std::vector<std::pair<std::string, absl::Status>> RefusedCollections() const override {
    return {{"large", ResourceExhausted("too large")}};
  }
  const EngineOptions& options() const override {
    static const EngineOptions options = [] {
      EngineOptions made;
      made.data_folder = "/";
      return made;
    }();
    return options;
  }
  StoreStats StoreStatistics() override { return {.disk_bytes = 77, .syncs_total = 5}; }
};

class Http : public testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start() {
    server_.reset();
    config_.listen = "127.0.0.1:0";
    config_.http_listen = "127.0.0.1:0";
    auto server = RunningServer::Start(config_, std::make_unique<EngineWithGallery>());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  struct Page {
    int status = 0;  // 0: no answer, which has failed the test
    std::string body;
  };

  int Port() const {
    const std::string& address = server_->bound().http;
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  // Asks a second time when the first connection is lost, as every scraper does.
  Page Get(const std::string& path) {
    std::string error;
    for (int tries = 0; tries < 2; ++tries) {
      httplib::Client client("127.0.0.1", Port());
      client.set_read_timeout(30);
      const httplib::Result result = client.Get(path.c_str());
      if (result) return {result->status, result->body};
      error = httplib::to_string(result.error());
    }
    ADD_FAILURE() << "no answer for " << path << ": " << error;
    return {};
  }

  ServerConfig config_;
  std::unique_ptr<RunningServer> server_;
};

TEST_F(Http, HealthReadinessAndTheIndexPage) {
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/livez").status, 200);
  EXPECT_EQ(Get("/readyz").status, 200);
  EXPECT_EQ(Get("/nothing").status, 404);
  server_->BeginDrain();
  EXPECT_EQ(Get("/healthz").status, 200);
  const Page draining = Get("/readyz");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(draining.body, "draining\n");
}

TEST_F(Http, TheConsoleIsPartOfTheServerUnlessItIsTurnedOff) {
  httplib::Client client("127.0.0.1", Port());
  const auto page = client.Get("/", httplib::Headers{{"Accept", "text/html,*/*"}});
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(Get("/console/console.css").status, 200);
  EXPECT_EQ(Get("/console/../server.cc").status, 404);
  EXPECT_EQ(Get("/api/v1/overview").status, 403) << "without the header that pages of other sites cannot send";
  const auto overview = client.Get("/api/v1/overview", httplib::Headers{{"X-Lightcone-Console", "1"}});
  ASSERT_TRUE(overview);
  EXPECT_EQ(overview->status, 200);
  EXPECT_THAT(overview->body, HasSubstr(server_->bound().grpc));
  EXPECT_THAT(overview->body, HasSubstr("\"read_only\":false"));

  config_.console_mode = "read";
  Start();
  httplib::Client reader("127.0.0.1", Port());
  const auto refused = reader.Post("/api/v1/collections/c/activate", httplib::Headers{{"X-Lightcone-Console", "1"}},
                                   "{}", "application/json");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403);
  EXPECT_THAT(refused->body, HasSubstr("read-only"));

  config_.console_mode = "off";
  Start();
  EXPECT_THAT(Get("/").body, HasSubstr("\"title\"")) << "a program that accepts no page gets what an API answers";
  EXPECT_EQ(Get("/api/v1/overview").status, 404);
  EXPECT_EQ(Get("/console/console.css").status, 404);
}

TEST_F(Http, MetricsTellCollectionsSegmentsStoreAndLanes) {
  const std::string body = Get("/metrics").body;
  for (const char* line :
       {"lightcone_items{collection=\"my \\\"gallery\\\"\\n\",generation=\"2\"} 20",
        "generation=\"1\",kind=\"hnsw\"} 1801", "generation=\"1\",kind=\"hnsw\"} 11",
        "lightcone_index_builds_total{collection=\"my \\\"gallery\\\"\\n\"} 3", "lightcone_store_size_bytes 77",
        "lightcone_store_syncs_total 5", "lightcone_lane_queued_calls{lane=\"read\"} 0", "lightcone_ready 1",
        "generation=\"1\",segment=\"hnsw\",filter=\"none\"} 0.5", "lightcone_backfill_items_left{",
        "state=\"running\"} 1", "state=\"paused\"} 0", "quantile=\"0.5\"} 0.5", "lightcone_disk_free_bytes ",
        "lightcone_gpu_info{state=\"", "lightcone_build_info{version=\"", "lightcone_in_flight_calls 0"}) {
    EXPECT_THAT(body, HasSubstr(line));
  }
}

TEST_F(Http, FaultsOfEveryMethodBeginAtZeroSoThatTheFirstIsAnIncrease) {
  const auto faults = [](const std::string& method, int count) {
    return StrCat("lightcone_requests_total{code=\"INTERNAL\",method=\"", method, "\"} ", count, "\n");
  };
  const std::string before = Get("/metrics").body;
  EXPECT_GE(MethodNames().size(), 40u);
  for (const auto& methods : {MethodNames(), ConsoleMethods()}) {
    for (const std::string& method : methods) EXPECT_THAT(before, HasSubstr(faults(method, 0)));
  }
  EXPECT_THAT(before, HasSubstr("{code=\"DATA_LOSS\",method=\"Retrieval/Search\"} 0\n"));
}

TEST_F(Http, WhatAnOperatorDoesFromTheConsoleIsInTheLogAndInTheMetrics) {
  SetUpLog("info", "text");
  testing::internal::CaptureStderr();
  httplib::Client client("127.0.0.1", Port());
  const auto answer = client.Post("/api/v1/collections/c/backfill-pause",
                                  httplib::Headers{{"X-Lightcone-Console", "1"}}, "{}", "application/json");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("info Console/backfill-pause OK "));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_THAT(Get("/metrics").body, HasSubstr("{code=\"OK\",method=\"Console/backfill-pause\"} 1\n"));
}

TEST_F(Http, EachFamilyHasHelpAndTypeOnceAndStandsInTheDocumentation) {
  std::stringstream documentation;
  for (const char* const page : {"metrics.md", "server-metrics.md"}) {
    documentation << std::ifstream(std::string(LIGHTCONE_SOURCE_DIR "/docs/reference/") + page).rdbuf();
  }
  Metrics calls("1");
  calls.RecordCall("Retrieval/Search", "OK", absl::Milliseconds(3));
  std::set<std::string> typed;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(calls.Scrape() + Get("/metrics").body, '\n'))) {
    if (line.rfind("# TYPE ", 0) != 0) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    typed.insert(words[2]);
    EXPECT_THAT(documentation.str(), HasSubstr("`" + words[2] + "`"));
  }
  EXPECT_GE(typed.size(), 20u);
}

// What an application is told in an answer that ends well, an operator has to see, too.
TEST_F(Http, ErrorsOfQueriesAndBatchesAreCountedThoughTheirCallsEndWell) {
  auto owned = std::make_unique<EngineWithGallery>();
  owned->on_search = [](const SearchCall&, const CallContext&) -> absl::StatusOr<SearchAnswer> {
    SearchAnswer answer;
    answer.results.resize(4);
    answer.results[1].status = answer.results[3].status = MakeStatus(absl::StatusCode::kDataLoss, "rotten");
    answer.results[2].status = InvalidArgument("another dimension");
    return answer;
  };
  owned->on_upsert = [](const UpsertBatch&, const CallContext&) -> absl::StatusOr<WriteResult> {
    return MakeStatus(absl::StatusCode::kInternal, "no");
  };
  server_.reset();
  auto server = RunningServer::Start(config_, std::move(owned));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  EXPECT_THAT(Get("/metrics").body, HasSubstr("part_errors_total{code=\"DATA_LOSS\",method=\"Retrieval/Search\"} 0\n"));

  const auto stub =
      v1::Retrieval::NewStub(grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials()));
  v1::SearchRequest request;
  request.set_collection("any");
  request.set_k(1);
  request.add_queries()->mutable_vector()->mutable_floats()->add_values(1);
  v1::SearchResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->Search(&context, request, &response).ok());
  grpc::ClientContext stream_context;
  const auto stream = stub->UpsertStream(&stream_context);
  v1::UpsertStreamRequest batch;
  batch.mutable_batch()->set_collection("any");
  auto* const item = batch.mutable_batch()->add_items();
  item->mutable_id()->set_number(1);
  item->mutable_vector()->mutable_floats()->add_values(1);
  ASSERT_TRUE(stream->Write(batch));
  v1::UpsertStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.error().message(), "no");
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());

  const std::string body = Get("/metrics").body;
  EXPECT_THAT(body, HasSubstr("part_errors_total{code=\"DATA_LOSS\",method=\"Retrieval/Search\"} 2\n"));
  EXPECT_THAT(body, HasSubstr("part_errors_total{code=\"INVALID_ARGUMENT\",method=\"Retrieval/Search\"} 1\n"));
  EXPECT_THAT(body, HasSubstr("part_errors_total{code=\"INTERNAL\",method=\"Retrieval/UpsertStream\"} 1\n"));
}

TEST_F(Http, PromtoolAcceptsTheMetrics) {
  ASSERT_EQ(std::system("command -v promtool > /dev/null"), 0) << "Debian's package prometheus has promtool";
  Metrics calls("1");
  calls.RecordCall("Retrieval/Search", "OK", absl::Milliseconds(3));
  const std::string counted = calls.Scrape();
  for (const std::string& text : {counted, Get("/metrics").body}) {
    FILE* promtool = popen("promtool check metrics 2>&1", "w");
    ASSERT_NE(promtool, nullptr);
    std::fwrite(text.data(), 1, text.size(), promtool);
    EXPECT_EQ(pclose(promtool), 0) << text;
  }
}

TEST_F(Http, AClientThatSaysNothingDoesNotHoldUpTheEnd) {
  RawClient silent(Port());
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_TRUE(server_->Stop(absl::InfiniteDuration()));
}

TEST_F(Http, BodiesOfUnknownSizeAreRefusedBeforeTheyAreRead) {
  for (const char* mode : {"operate", "read", "off"}) {
    config_.console_mode = mode;
    Start();
    for (const char* path : {"/api/v1/collections/c/search", "/metrics", "/nothing"}) {
      const std::string head = StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\n");
      for (const auto& [headers, status] : std::vector<std::pair<std::string, std::string>>{
               {"Transfer-Encoding: chunked\r\n", "501"},
               {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "400"},
               {"Content-Length: 5\r\nContent-Encoding: gzip\r\n", "415"},
               {"Content-Length: 5\r\nContent-Type: multipart/form-data; boundary=b\r\n", "415"},
               {"", "411"},
               {"Content-Length: 5\r\nContent-Length: 6\r\n", "400"},
               {"Content-Length: -1\r\n", "400"},
               {"Content-Length: 99999999999999999999999\r\n", "400"}}) {
        RawClient client(Port());
        // The body never ends: whoever waits for it does not answer. What comes of it does not hide the answer.
        ASSERT_TRUE(client.Send(head + headers + "\r\n3\r\n"));
        EXPECT_THAT(client.Read(), testing::StartsWith("HTTP/1.1 " + status)) << mode << path << headers;
      }
      RawClient client(Port());
      ASSERT_TRUE(client.Send(head + "Content-Length: 16777217\r\n\r\n3\r\n"));
      const bool taken = StrCat(mode) != "off" && StrCat(path).starts_with("/api/");
      const char* status = taken ? "413" : StrCat(path) == "/metrics" ? "405" : "404";
      EXPECT_THAT(client.Read(), testing::StartsWith(StrCat("HTTP/1.1 ", status))) << mode << path;
    }
  }
}

TEST_F(Http, AHeadWithoutEndIsCutOff) {
  // More than the kernel buffers between the two.
  constexpr size_t kBytes = 64 << 20, kPiece = 64 << 10;
  for (const std::string& line : {std::string("a"), std::string("a: b\r\n")}) {
    RawClient client(Port());
    ASSERT_TRUE(client.Send("GET /healthz HTTP/1.1\r\n"));
    std::string piece;
    while (piece.size() < kPiece) piece += line;
    size_t sent = 0;
    while (sent < kBytes && client.Send(piece)) sent += piece.size();
    EXPECT_LT(sent, kBytes) << "the server takes any number of '" << line << "'";
  }
  EXPECT_EQ(Get("/healthz").status, 200);
}

TEST_F(Http, ManyRangesOfAPageAreThePageOnce) {
  httplib::Client client("127.0.0.1", Port());
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 500; ++i) ranges += ",0-";
  const auto whole = client.Get("/console/console.css");
  const auto many = client.Get("/console/console.css", httplib::Headers{{"Range", ranges}});
  ASSERT_TRUE(whole && many);
  EXPECT_EQ(many->status, 200);
  EXPECT_TRUE(many->body == whole->body) << many->body.size() << " bytes";
}

TEST_F(Http, ManyClientsThatAreNeverDoneHoldUpNeitherOthersNorTheEnd) {
  std::deque<RawClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(Port()).Send(i % 2 == 0 ? "GET /healthz HTTP/1.1\r\nX: "
                                                 : "POST /api/v1/collections/c/search HTTP/1.1\r\nHost: "
                                                   "localhost\r\nContent-Length: 1000000\r\n\r\n");
  }
  for (const char* path : {"/healthz", "/livez", "/readyz", "/metrics"}) EXPECT_EQ(Get(path).status, 200) << path;
  EXPECT_TRUE(server_->Stop(absl::InfiniteDuration()));
}

TEST_F(Http, PagesAndMetricsTakeTheNamesOfTheServerAlone) {
  config_.console_host = "vectors.example";
  Start();
  const auto status = [this](const std::string& path, const std::string& host) {
    RawClient client(Port());
    client.Send(StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\nX-Lightcone-Console: 1\r\n\r\n"));
    return client.ReadAnswer().substr(9, 3);
  };
  for (const char* path : {"/", "/console/console.css", "/metrics", "/api/v1/overview"}) {
    EXPECT_EQ(status(path, "vectors.example:7701"), "200") << path;
    EXPECT_EQ(status(path, "127.0.0.1:7701"), "200") << path;
    EXPECT_EQ(status(path, "evil.example"), "403") << path;
  }
  for (const char* path : {"/healthz", "/livez", "/readyz"}) EXPECT_EQ(status(path, "evil.example"), "200") << path;
}

}  // namespace
}  // namespace lightcone::server
