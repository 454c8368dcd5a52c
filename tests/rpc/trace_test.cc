// A server that sends the spans of calls to a collector, as its callers' `traceparent` asks, and logs with their ids.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "absl/synchronization/notification.h"
#include "httplib.h"
#include "server/rpc/server.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/rpc/fake_engine.h"
#include "tests/rpc/keys_fixture.h"
#include "tests/rpc/wire_fixture.h"
#include "tests/trace/stub_collector.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kCaller[] = "00f067aa0ba902b7";

struct Times {
  int64_t began = 0, ended = 0;  // nanoseconds since 1970
};
Times TimesOf(const json& span) {
  return {std::stoll(span["startTimeUnixNano"].get<std::string>()),
          std::stoll(span["endTimeUnixNano"].get<std::string>())};
}

std::string Header(bool sampled = true) { return StrCat("00-", kTrace, "-", kCaller, sampled ? "-01" : "-00"); }

class TraceTest : public WireTest {
 protected:
  // Only calls that ask for it are traced.
  void ServeTraced(std::unique_ptr<Engine> engine = nullptr) {
    config_.trace.endpoint = collector_.url();
    config_.trace.sample_share = 0;
    Serve(std::move(engine));
  }
  void AskForKeys(const std::string& lines) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", lines).ok());
    config_.auth.keys_file = folder_ / "keys";
  }
  grpc::Status SearchTraced(const v1::SearchRequest& request, bool sampled = true, const std::string& key = "") {
    grpc::ClientContext context;
    if (!key.empty()) context.AddMetadata("api-key", key);
    context.AddMetadata("traceparent", Header(sampled));
    v1::SearchResponse response;
    return retrieval_->Search(&context, request, &response);
  }
  // The status of a search over REST; 0: there was no answer.
  int PostTraced(const std::string& collection, const std::string& key = "") {
    httplib::Headers headers = {{"traceparent", Header()}};
    if (!key.empty()) headers.emplace("api-key", key);
    httplib::Client client("http://" + server_->bound().http);
    client.set_read_timeout(60);
    const auto answer = client.Post(StrCat("/collections/", collection, "/points/search"), headers,
                                    R"({"vector": [0, 1, 2, 3], "limit": 1})", "application/json");
    return answer ? answer->status : 0;
  }
  // The spans, once those of so many calls have arrived. The server is gone then, and has sent what it had besides.
  std::vector<json> Spans(int64_t calls) {
    collector_.AwaitCalls(calls);
    server_->Stop(absl::Seconds(30));
    return collector_.spans();
  }
  // Names of the spans of the caller's trace, which must hang together.
  static std::multiset<std::string> NamesOf(const std::vector<json>& spans) {
    std::set<std::string> ids = {kCaller};
    std::multiset<std::string> names;
    for (const json& span : spans) ids.insert(span["spanId"]);
    for (const json& span : spans) {
      EXPECT_EQ(span["traceId"], kTrace);
      EXPECT_TRUE(ids.contains(span["parentSpanId"])) << span.dump();
      names.insert(span["name"]);
    }
    return names;
  }

  // How the one call of that name ended, and its spans by their names: those right below it, which lie within its time,
  // and under "" its own.
  struct Call {
    std::string code;
    std::map<std::string, Times> spans;
  };
  static Call CallOf(const std::vector<json>& spans, const std::string& name) {
    const auto root = std::find_if(spans.begin(), spans.end(), [&](const json& span) { return span["name"] == name; });
    if (root == spans.end()) {
      ADD_FAILURE() << "no span " << name;
      return {};
    }
    const Times whole = TimesOf(*root);
    Call call = {AttributeOf(*root, "rpc.response.status_code"), {{"", whole}}};
    for (const json& span : spans) {
      if (span["parentSpanId"] != (*root)["spanId"]) continue;
      const Times times = TimesOf(span);
      EXPECT_LE(whole.began, times.began) << name << " " << span.dump();
      EXPECT_LE(times.began, times.ended) << name << " " << span.dump();
      EXPECT_LE(times.ended, whole.ended) << name << " " << span.dump();
      EXPECT_TRUE(call.spans.emplace(span["name"], times).second) << name << " " << span.dump();
    }
    return call;
  }
  static std::vector<std::string> NamesIn(const Call& call) {
    std::vector<std::string> names;
    for (const auto& [name, times] : call.spans) {
      if (!name.empty()) names.push_back(name);
    }
    return names;
  }
  // The spans follow each other in this order, the first from the beginning of the call on.
  static void ExpectOrder(const Call& call, const std::vector<std::string>& names) {
    int64_t before = call.spans.at("").began;
    for (const std::string& name : names) {
      const auto span = call.spans.find(name);
      ASSERT_NE(span, call.spans.end()) << name;
      EXPECT_LE(before, span->second.began) << name;
      before = span->second.ended;
    }
  }

  // The number behind `name` in the figures; -1: there is none.
  double FigureOf(const std::string& name) {
    httplib::Client client("http://" + server_->bound().http);
    const auto answer = client.Get("/metrics");
    if (!answer) return -1;
    const size_t at = answer->body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(answer->body.substr(at + name.size() + 2));
  }

  StubCollector collector_;
};

TEST_F(TraceTest, ASearchAndAnUpsertSendTheirSpansUnderTheCallersTrace) {
  ServeTraced();
  MakeGallery("photos");
  {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", Header());
    v1::UpsertResponse response;
    ASSERT_TRUE(retrieval_->Upsert(&context, Batch("photos", {"a", "b"}), &response).ok());
  }
  ASSERT_TRUE(SearchTraced(SearchFor("photos", {0, 1, 2, 3})).ok());
  ASSERT_TRUE(SearchTraced(SearchFor("photos", {0, 1, 2, 3}), /*sampled=*/false).ok());
  const std::vector<json> spans = Spans(2);
  EXPECT_THAT(NamesOf(spans),
              UnorderedElementsAre("Retrieval/Upsert", "auth", "queue", "write", "queue", "store", "index",
                                   "Retrieval/Search", "auth", "queue", "index", "leg", "store"));
  for (const json& span : spans) {
    if (span["parentSpanId"] != kCaller) continue;
    EXPECT_EQ(span["kind"], 2);
    EXPECT_EQ(AttributeOf(span, "rpc.method"), span["name"].get<std::string>());
    EXPECT_EQ(AttributeOf(span, "rpc.response.status_code"), "OK");
    EXPECT_EQ(AttributeOf(span, "db.collection.name"), "photos");
  }
}

TEST_F(TraceTest, EachBatchOfAStreamIsACallOfTheCallersTrace) {
  ServeTraced();
  MakeGallery("photos");
  {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", Header());
    const auto stream = retrieval_->UpsertStream(&context);
    for (const char* collection : {"photos", "missing"}) {
      v1::UpsertStreamRequest request;
      *request.mutable_batch() = Batch(collection, {"a"});
      ASSERT_TRUE(stream->Write(request));
      v1::UpsertStreamResponse response;
      ASSERT_TRUE(stream->Read(&response));
    }
    stream->WritesDone();
    ASSERT_TRUE(stream->Finish().ok());
  }
  const std::vector<json> spans = Spans(2);
  NamesOf(spans);
  std::vector<std::string> ends;
  for (const json& span : spans) {
    if (span["name"] != "Retrieval/UpsertStream") continue;
    EXPECT_EQ(span["parentSpanId"], kCaller);
    ends.push_back(StrCat(AttributeOf(span, "db.collection.name"), " ", AttributeOf(span, "rpc.response.status_code")));
  }
  EXPECT_THAT(ends, ElementsAre("photos OK", "missing NOT_FOUND"));
}

TEST_F(TraceTest, CallsOfRestAreTracedByTheSameHeader) {
  ServeTraced();
  MakeGallery("photos");
  ASSERT_TRUE(Upsert(Batch("photos", {"a", "b"})).ok());
  ASSERT_EQ(PostTraced("photos"), 200);
  const std::vector<json> spans = Spans(1);
  EXPECT_THAT(NamesOf(spans),
              IsSupersetOf({"Rest/SearchPoints", "auth", "receive", "queue", "parse", "index", "leg", "store"}));
  for (const json& span : spans) {
    if (span["name"] != "Rest/SearchPoints") continue;
    EXPECT_EQ(AttributeOf(span, "db.collection.name"), "photos");
  }
}

TEST_F(TraceTest, EveryCallIsTracedByDefault) {
  config_.trace.endpoint = collector_.url();
  Serve();
  MakeGallery("photos");
  v1::SearchResponse response;
  ASSERT_TRUE(Search(SearchFor("photos", {0, 1, 2, 3}), &response).ok());
  std::set<std::string> names, traces;
  for (const json& span : Spans(4)) {
    if (span.contains("parentSpanId")) continue;
    names.insert(span["name"]);
    traces.insert(span["traceId"]);
  }
  EXPECT_THAT(names, IsSupersetOf({"Collections/Create", "Generations/Activate", "Retrieval/Search"}));
  EXPECT_EQ(traces.size(), 4u) << "each call has a trace of its own";
}

TEST_F(TraceTest, TheCheckOfTheKeyAndTheWaitAreSpansOfTheirCall) {
  AskForKeys(KeyLine("reader", auth::kRead));
  ServeTraced();
  EXPECT_EQ(SearchTraced(SearchFor("missing", {0}), true, "reader-key").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(PostTraced("missing", "reader-key"), 404);
  const std::vector<json> spans = Spans(2);
  const Call search = CallOf(spans, "Retrieval/Search"), points = CallOf(spans, "Rest/SearchPoints");
  EXPECT_THAT(NamesIn(search), UnorderedElementsAre("auth", "queue"));
  ExpectOrder(search, {"auth", "queue"});
  EXPECT_THAT(NamesIn(points), UnorderedElementsAre("auth", "receive", "queue", "parse"));
  ExpectOrder(points, {"auth", "receive", "queue", "parse"});
}

TEST_F(TraceTest, TheWaitOfACallEndsAsAThreadOfItsLaneBeginsTheWork) {
  config_.read_lane.threads = 1;
  absl::Notification running, released;
  std::atomic<int64_t> released_ns{0};
  auto engine = std::make_unique<FakeEngine>();
  engine->on_search = [&](const SearchCall&, const CallContext& context) -> absl::StatusOr<SearchAnswer> {
    if (context.trace == nullptr) {
      running.Notify();
      released.WaitForNotification();
      return SearchAnswer{};
    }
    context.trace->Add("release", Trace::kRoot, released_ns, released_ns);
    const Span work(context.trace, "work");
    return NotFound("nothing");
  };
  ServeTraced(std::move(engine));
  std::vector<std::thread> callers;
  callers.emplace_back([&] {
    v1::SearchResponse response;
    EXPECT_TRUE(Search(SearchFor("any", {0}), &response).ok());
  });
  running.WaitForNotification();
  callers.emplace_back(
      [&] { EXPECT_EQ(SearchTraced(SearchFor("any", {0})).error_code(), grpc::StatusCode::NOT_FOUND); });
  callers.emplace_back([&] { EXPECT_EQ(PostTraced("any"), 404); });
  while (FigureOf("lightcone_lane_queued_calls{lane=\"read\"}") != 2) std::this_thread::yield();
  released_ns = SteadyNanos();
  released.Notify();
  for (std::thread& caller : callers) caller.join();
  const std::vector<json> spans = Spans(2);
  for (const char* name : {"Retrieval/Search", "Rest/SearchPoints"}) {
    const Call call = CallOf(spans, name);
    ASSERT_THAT(NamesIn(call), IsSupersetOf({"queue", "release", "work"})) << name;
    EXPECT_LE(call.spans.at("queue").began, call.spans.at("release").began) << name;
    EXPECT_LE(call.spans.at("release").ended, call.spans.at("queue").ended) << name;
    ExpectOrder(call, {"auth", "queue", "work"});
  }
}

TEST_F(TraceTest, ACallThatItsLaneRefusesEndsItsTraceWithTheRefusal) {
  config_.read_lane.threads = 1;
  config_.read_lane.queue_max = 0;
  absl::Notification running, released;
  auto engine = std::make_unique<FakeEngine>();
  engine->on_search = [&](const SearchCall&, const CallContext&) -> absl::StatusOr<SearchAnswer> {
    running.Notify();
    released.WaitForNotification();
    return SearchAnswer{};
  };
  ServeTraced(std::move(engine));
  std::thread caller([&] {
    v1::SearchResponse response;
    EXPECT_TRUE(Search(SearchFor("any", {0}), &response).ok());
  });
  running.WaitForNotification();
  EXPECT_EQ(SearchTraced(SearchFor("any", {0})).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(PostTraced("any"), 429);
  released.Notify();
  caller.join();
  const std::vector<json> spans = Spans(2);
  const Call search = CallOf(spans, "Retrieval/Search"), points = CallOf(spans, "Rest/SearchPoints");
  EXPECT_EQ(search.code, "RESOURCE_EXHAUSTED");
  EXPECT_THAT(NamesIn(search), UnorderedElementsAre("auth", "queue"));
  EXPECT_EQ(points.code, "RESOURCE_EXHAUSTED");
  EXPECT_THAT(NamesIn(points), UnorderedElementsAre("auth", "receive", "queue"));
}

TEST_F(TraceTest, ACallWhoseKeyLacksTheScopeEndsItsTraceWithTheRefusal) {
  AskForKeys(KeyLine("writer", auth::kWrite) + KeyLine("shop", auth::kRead, {"shop-*"}));
  ServeTraced();
  EXPECT_EQ(SearchTraced(SearchFor("any", {0}), true, "writer-key").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(PostTraced("any", "writer-key"), 403);
  EXPECT_EQ(PostTraced("any", "shop-key"), 403);
  const std::vector<json> spans = Spans(3);
  std::vector<std::string> ends;
  for (const json& span : spans) {
    if (span["parentSpanId"] != kCaller) continue;
    ends.push_back(StrCat(span["name"].get<std::string>(), " ", AttributeOf(span, "rpc.response.status_code")));
  }
  EXPECT_THAT(ends, UnorderedElementsAre("Retrieval/Search PERMISSION_DENIED", "Rest/SearchPoints PERMISSION_DENIED",
                                         "Rest/SearchPoints PERMISSION_DENIED"));
  EXPECT_THAT(NamesOf(spans), UnorderedElementsAre("Retrieval/Search", "auth", "Rest/SearchPoints", "auth",
                                                   "Rest/SearchPoints", "auth"));
}

TEST(TraceOfRpc, CallsThatAreRefusedTakeHalfOfTheQueueAtMost) {
  SetUpLog("off", "text");
  absl::Notification release;
  StubCollector collector;
  collector.Queue([&](httplib::Response&) { release.WaitForNotification(); });
  TracerOptions traced{.endpoint = collector.url()};
  traced.queue_max = 2;
  traced.pause = absl::Milliseconds(1);
  traced.request_time = absl::Hours(1);
  Tracer tracer(traced);
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "keys", KeyLine("read", auth::kRead, {"mine"})).ok());
  const auto keys = auth::Keyring::Open({.keys_file = folder / "keys"});
  ASSERT_TRUE(keys.ok()) << keys.status();
  FakeEngine engine;
  RpcOptions options;
  options.keys = keys->get();
  options.tracer = &tracer;
  const auto server = RpcServer::Start(&engine, options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials());
  const auto call = [&](const std::string& method, const std::string& request = "") {
    return CallByName(channel, "/lightcone.v1." + method, request, "read-key").status.error_code();
  };
  const auto lost = [&] { return tracer.figures().dropped_total[static_cast<size_t>(SpanLoss::kQueueFull)]; };
  EXPECT_EQ(call("Collections/List"), grpc::OK);
  collector.AwaitRequests(1);
  v1::CountRequest foreign;
  foreign.set_collection("theirs");
  EXPECT_EQ(call("Retrieval/Count", foreign.SerializeAsString()), grpc::PERMISSION_DENIED);
  EXPECT_EQ(lost(), 0u);
  uint64_t before = 0;  // spans that were lost so far
  for (const auto& [method, request] : {std::pair<std::string, std::string>("Collections/Drop", ""),
                                        {"Retrieval/Count", foreign.SerializeAsString()}}) {
    EXPECT_EQ(call(method, request), grpc::PERMISSION_DENIED) << method;
    EXPECT_GT(lost(), before) << method;
    before = lost();
  }
  EXPECT_EQ(call("Collections/List"), grpc::OK);
  EXPECT_EQ(lost(), before) << "a call that worked has its place";
  release.Notify();
}

TEST_F(TraceTest, NobodyWithoutAKeySendsSpans) {
  AskForKeys(KeyLine("reader", auth::kRead));
  ServeTraced();
  EXPECT_EQ(SearchTraced(SearchFor("nobody's", {0})).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(SearchTraced(SearchFor("nobody's", {0}), true, "wrong").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(PostTraced("nobodys"), 401);
  EXPECT_EQ(PostTraced("nobodys", "wrong"), 401);
  EXPECT_EQ(SearchTraced(SearchFor("readers", {0}), true, "reader-key").error_code(), grpc::StatusCode::NOT_FOUND);
  std::vector<std::string> collections;
  for (const json& span : Spans(1)) {
    if (span["parentSpanId"] == kCaller) collections.push_back(AttributeOf(span, "db.collection.name"));
  }
  EXPECT_THAT(collections, ElementsAre("readers"));
}

TEST_F(TraceTest, TheFiguresSayHowManySpansWereSentAndLost) {
  ServeTraced();
  EXPECT_EQ(SearchTraced(SearchFor("missing", {0})).error_code(), grpc::StatusCode::NOT_FOUND);
  collector_.AwaitCalls(1);
  const double sent = static_cast<double>(collector_.spans().size());
  // The server counts them once it has the reply.
  while (FigureOf("lightcone_trace_spans_exported_total") == 0) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(FigureOf("lightcone_trace_spans_exported_total"), sent);
  for (const char* reason : {"bound", "failed", "queue_full"}) {
    EXPECT_EQ(FigureOf(StrCat("lightcone_trace_spans_dropped_total{reason=\"", reason, "\"}")), 0) << reason;
  }
}

TEST_F(TraceTest, TheLogOfAFailedCallHasTheIdOfItsTraceWithoutACollectorToo) {
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  const auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(logger);
  Serve();
  EXPECT_EQ(SearchTraced(SearchFor("missing", {0})).error_code(), grpc::StatusCode::NOT_FOUND);
  server_->Stop(absl::Seconds(30));
  spdlog::set_default_logger(before);
  const std::string text = lines.str();
  EXPECT_THAT(text, HasSubstr(StrCat(" us trace ", kTrace, ": ")));
  EXPECT_THAT(text, HasSubstr("Retrieval/Search NOT_FOUND"));
  EXPECT_THAT(collector_.requests(), IsEmpty());
}

TEST_F(TraceTest, AServerRefusesAUrlThatIsNone) {
  config_.trace.endpoint = "collector:4318";
  config_.listen = "127.0.0.1:0";
  config_.engine.data_folder = folder_ / "data";
  const absl::Status status = RunningServer::Start(config_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("trace.endpoint"));
}

}  // namespace
}  // namespace lightcone::server
