// The exporter of traces against a collector: what is sent, which calls are traced, and what a collector in trouble
// costs.
#include "server/trace/tracer.h"

#include <map>
#include <set>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/trace/trace_endpoint.h"
#include "tests/trace/stub_collector.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr TraceParent kParent = {{0x4bf92f3577b34da6, 0xa3ce929d0e0e4736}, 0x00f067aa0ba902b7, true};

TracerOptions OptionsFor(const StubCollector& collector) {
  TracerOptions options{.endpoint = collector.url()};
  options.version = "1.2.3";
  options.retry_min = absl::Milliseconds(1);
  options.pause = absl::Milliseconds(1);
  options.stop_time = absl::Seconds(30);  // Machines of tests may be slow.
  return options;
}

uint64_t Dropped(const Tracer& tracer, SpanLoss loss) {
  return tracer.figures().dropped_total[static_cast<size_t>(loss)];
}

void MakeCall(Tracer* tracer, absl::StatusCode code = absl::StatusCode::kOk, CallStage stage = CallStage::kWorked) {
  std::unique_ptr<Trace> trace = tracer->Begin(kParent, "Retrieval/Search");
  { const Span leg(trace.get(), "leg"); }
  tracer->End(std::move(trace), code, stage);
}

TEST(Tracer, ARequestHasTheFormOfOtlp) {
  StubCollector collector;
  Tracer tracer(OptionsFor(collector));
  std::unique_ptr<Trace> trace = tracer.Begin(kParent, "Retrieval/Search");
  ASSERT_NE(trace, nullptr);
  trace->Set(Trace::kRoot, "db.collection.name", std::string("a \"b\"\n\xff\\"));
  {
    Span leg(trace.get(), "leg");
    leg.Set("generation", 2);
    leg.Set("fused", false);
    leg.Set("share", 0.25);
    const Span inner(trace.get(), "store", &leg);
  }
  tracer.End(std::move(trace), absl::StatusCode::kInternal);
  tracer.Stop();
  ASSERT_EQ(collector.requests().size(), 1u);
  EXPECT_EQ(collector.requests()[0]["type"], "application/json");
  const json resource = collector.requests()[0]["body"]["resourceSpans"][0]["resource"];
  EXPECT_EQ(AttributeOf(resource, "service.name"), "lightcone");
  EXPECT_EQ(AttributeOf(resource, "service.version"), "1.2.3");
  EXPECT_NE(AttributeOf(resource, "service.instance.id"), "");
  const std::vector<json> spans = collector.spans();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0]["name"], "Retrieval/Search");
  EXPECT_EQ(spans[0]["kind"], 2);
  EXPECT_EQ(spans[0]["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_EQ(AttributeOf(spans[0], "rpc.response.status_code"), "INTERNAL");
  EXPECT_EQ(AttributeOf(spans[0], "db.collection.name"), "a \"b\"\n?\\");
  EXPECT_EQ(spans[1]["kind"], 1);
  EXPECT_EQ(spans[1]["parentSpanId"], spans[0]["spanId"]);
  EXPECT_EQ(spans[2]["parentSpanId"], spans[1]["spanId"]);
  EXPECT_FALSE(spans[1]["status"].contains("code"));
  EXPECT_EQ(spans[1]["attributes"].dump(),
            R"([{"key":"generation","value":{"intValue":"2"}},{"key":"fused","value":{"boolValue":false}},)"
            R"({"key":"share","value":{"doubleValue":0.25}}])");
  std::set<std::string> ids;
  for (const json& span : spans) {
    EXPECT_EQ(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(span["spanId"].get<std::string>().size(), 16u);
    ids.insert(span["spanId"]);
    const int64_t began = std::stoll(span["startTimeUnixNano"].get<std::string>());
    EXPECT_LE(began, std::stoll(span["endTimeUnixNano"].get<std::string>()));
    EXPECT_LT(absl::AbsDuration(absl::Now() - absl::FromUnixNanos(began)), absl::Minutes(10));
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(tracer.figures().exported_total, 3u);
}

TEST(Tracer, TheCallersFlagDecidesAndElseTheShare) {
  StubCollector collector;
  TracerOptions options = OptionsFor(collector);
  options.sample_share = 0;
  Tracer none(options);
  EXPECT_EQ(none.Begin(std::nullopt, "call"), nullptr);
  EXPECT_NE(none.Begin(kParent, "call"), nullptr);
  options.sample_share = 1;
  Tracer all(options);
  const std::unique_ptr<Trace> fresh = all.Begin(std::nullopt, "call");
  ASSERT_NE(fresh, nullptr);
  EXPECT_FALSE(fresh->id().empty());
  EXPECT_EQ(fresh->parent(), 0u);
  TraceParent unsampled = kParent;
  unsampled.sampled = false;
  EXPECT_EQ(all.Begin(unsampled, "call"), nullptr);
  options.sample_share = 0.5;
  Tracer half(options);
  int traced = 0;
  for (int i = 0; i < 1'000; ++i) traced += half.Begin(std::nullopt, "call") != nullptr;
  EXPECT_GT(traced, 400);
  EXPECT_LT(traced, 600);
  options.endpoint.clear();
  EXPECT_EQ(Tracer(options).Begin(kParent, "call"), nullptr);
}

TEST(Tracer, ACollectorThatRefusesForNowIsAskedAgain) {
  StubCollector collector;
  for (const int status : {429, 502, 503, 504}) collector.QueueStatus(status);
  TracerOptions options = OptionsFor(collector);
  options.tries = 5;
  Tracer tracer(options);
  MakeCall(&tracer);
  collector.AwaitRequests(5);
  tracer.Stop();
  EXPECT_EQ(collector.requests()[0], collector.requests()[4]);
  EXPECT_EQ(tracer.figures().exported_total, 2u);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 0u);
}

TEST(Tracer, TheCollectorSaysHowLongToWait) {
  StubCollector collector;
  collector.QueueStatus(503, "0");
  TracerOptions options = OptionsFor(collector);
  options.retry_min = absl::Seconds(60);  // no pause is longer than 30 s
  Tracer tracer(options);
  const int64_t began = SteadyNanos();
  MakeCall(&tracer);
  collector.AwaitRequests(2);
  EXPECT_LT(absl::Nanoseconds(SteadyNanos() - began), absl::Seconds(25));
  tracer.Stop();
  EXPECT_EQ(tracer.figures().exported_total, 2u);
}

TEST(Tracer, SpansInAPauseAreSentOnceMoreAtTheEnd) {
  StubCollector collector;
  collector.QueueStatus(503);
  collector.QueueStatus(503);
  TracerOptions options = OptionsFor(collector);
  options.retry_min = absl::Hours(1);
  Tracer tracer(options);
  MakeCall(&tracer);
  collector.AwaitRequests(1);
  tracer.Stop();
  EXPECT_EQ(collector.requests().size(), 2u);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 2u);
}

TEST(Tracer, SpansThatACollectorRejectsOfARequestAreLost) {
  StubCollector collector;
  collector.QueueReply(R"({"partialSuccess":{"rejectedSpans":"1","errorMessage":"no\nroom\u007f"}})");
  collector.QueueReply(R"({"partialSuccess":{"rejectedSpans":1}})");
  collector.QueueReply(R"({"partialSuccess":{"rejectedSpans":99}})");
  for (const char* nothing : {"", "ok", "[]", R"({"partialSuccess":7})", R"({"partialSuccess":{"rejectedSpans":"x"}})",
                              R"({"partialSuccess":{"rejectedSpans":-1,"errorMessage":1}})"}) {
    collector.QueueReply(nothing);
  }
  TracerOptions options = OptionsFor(collector);
  options.batch_max = 1;
  std::vector<std::string> logged;
  options.log = [&](const std::string& line) { logged.push_back(line); };
  Tracer tracer(options);
  for (int i = 0; i < 9; ++i) MakeCall(&tracer);
  tracer.Stop();
  EXPECT_EQ(collector.requests().size(), 9u) << "what was taken is not sent again";
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 1u + 1u + 2u);
  EXPECT_EQ(tracer.figures().exported_total, 14u);
  EXPECT_THAT(logged, ElementsAre(HasSubstr("rejected 1 spans: no room ;")));
}

TEST(Tracer, OfALongReplyTheBeginningIsRead) {
  StubCollector collector;
  collector.QueueReply(R"({"partialSuccess":{"errorMessage":")" + std::string(1 << 20, 'x') + "\"}}");
  TracerOptions options = OptionsFor(collector);
  std::vector<std::string> logged;
  options.log = [&](const std::string& line) { logged.push_back(line); };
  Tracer tracer(options);
  MakeCall(&tracer);
  tracer.Stop();
  EXPECT_EQ(tracer.figures().exported_total, 2u);
  EXPECT_THAT(logged, IsEmpty()) << "the beginning alone is no JSON";
}

TEST(Tracer, TriesAreBoundedAndThenTheSpansAreCounted) {
  StubCollector collector;
  TracerOptions options = OptionsFor(collector);
  for (int i = 0; i < options.tries; ++i) collector.QueueStatus(503);
  Tracer tracer(options);
  MakeCall(&tracer);
  collector.AwaitRequests(static_cast<size_t>(options.tries));
  MakeCall(&tracer);
  tracer.Stop();
  EXPECT_EQ(collector.requests().size(), static_cast<size_t>(options.tries) + 1);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 2u);
  EXPECT_EQ(tracer.figures().exported_total, 2u);
}

TEST(Tracer, SpansThatACollectorRejectsAreNotSentAgainAndTheLogSaysSoOnce) {
  StubCollector collector;
  const std::vector<int> statuses = {400, 404, 408, 413, 500, 501, 307};
  for (const int status : statuses) collector.QueueStatus(status);
  TracerOptions options = OptionsFor(collector);
  options.batch_max = 1;
  std::vector<std::string> logged;
  options.log = [&](const std::string& line) { logged.push_back(line); };
  Tracer tracer(options);
  for (size_t i = 0; i < statuses.size(); ++i) MakeCall(&tracer);
  tracer.Stop();
  EXPECT_EQ(collector.requests().size(), statuses.size());
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 2 * statuses.size());
  EXPECT_THAT(logged, ElementsAre(HasSubstr("HTTP status 400")));
}

TEST(Tracer, ACollectorThatIsGoneCostsSpansAndNoTime) {
  TracerOptions options;
  {
    StubCollector gone;
    options = OptionsFor(gone);
  }
  options.tries = 2;
  Tracer tracer(options);
  for (int i = 0; i < 100; ++i) MakeCall(&tracer);
  tracer.Stop();
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 200u);
}

TEST(Tracer, ACollectorThatHangsFillsTheQueueAndBlocksNobody) {
  absl::Notification release;
  StubCollector collector;
  collector.Queue([&](httplib::Response&) { release.WaitForNotification(); });
  TracerOptions options = OptionsFor(collector);
  options.queue_max = 10;
  options.request_time = absl::Hours(1);
  options.stop_time = absl::ZeroDuration();
  Tracer tracer(options);
  MakeCall(&tracer);
  collector.AwaitRequests(1);
  for (int i = 0; i < 15; ++i) MakeCall(&tracer);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 10u);
  tracer.Stop();  // gives the request up
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 22u);
  MakeCall(&tracer);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kFailed), 24u) << "a tracer that has stopped takes nothing";
  EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 10u);
  release.Notify();
}

TEST(Tracer, RefusedCallsTakeHalfTheQueueAndLeaveTheRestToCallsThatWorked) {
  absl::Notification release;
  StubCollector collector;
  collector.Queue([&](httplib::Response&) { release.WaitForNotification(); });
  TracerOptions options = OptionsFor(collector);
  options.queue_max = 10;
  options.request_time = absl::Hours(1);
  Tracer tracer(options);
  MakeCall(&tracer);
  collector.AwaitRequests(1);
  const auto refuse = [&](int calls) {
    for (int i = 0; i < calls; ++i) MakeCall(&tracer, absl::StatusCode::kPermissionDenied, CallStage::kRefused);
  };
  refuse(100);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 2u * 95) << "half of the queue is theirs";
  for (int i = 0; i < 5; ++i) {
    MakeCall(&tracer);
    refuse(1);
  }
  EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 2u * 100) << "no call that worked is lost";
  release.Notify();
  tracer.Stop();
  std::map<std::string, int> ends;  // without the first call: the collector does not keep what it answered late
  for (const json& span : collector.spans()) {
    if (span["name"] == "Retrieval/Search") ++ends[AttributeOf(span, "rpc.response.status_code")];
  }
  EXPECT_THAT(ends, ElementsAre(Pair("OK", 5), Pair("PERMISSION_DENIED", 5)));
}

TEST(Tracer, CallsThatAreInvalidOrNameWhatIsNotThereLeaveHalfOfTheQueueToo) {
  for (const absl::StatusCode idle : {absl::StatusCode::kNotFound, absl::StatusCode::kInvalidArgument}) {
    absl::Notification release;
    StubCollector collector;
    collector.Queue([&](httplib::Response&) { release.WaitForNotification(); });
    TracerOptions options = OptionsFor(collector);
    options.queue_max = 2;
    options.request_time = absl::Hours(1);
    Tracer tracer(options);
    MakeCall(&tracer);
    collector.AwaitRequests(1);
    for (int i = 0; i < 3; ++i) MakeCall(&tracer, idle, CallStage::kWorked);
    EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 2u * 2) << idle;
    MakeCall(&tracer, absl::StatusCode::kFailedPrecondition, CallStage::kWorked);
    EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 2u * 2) << "another error of a call that worked has its place";
    MakeCall(&tracer);
    EXPECT_EQ(Dropped(tracer, SpanLoss::kQueueFull), 2u * 3) << "the whole queue is taken";
    release.Notify();
  }
}

TEST(Tracer, SpansBeyondTheBoundOfACallAreCounted) {
  StubCollector collector;
  Tracer tracer(OptionsFor(collector));
  std::unique_ptr<Trace> trace = tracer.Begin(kParent, "call");
  for (size_t i = 0; i < Trace::kSpansMax + 9; ++i) Span(trace.get(), "leg").Set("place", i);
  tracer.End(std::move(trace), absl::StatusCode::kOk);
  tracer.Stop();
  EXPECT_EQ(tracer.figures().exported_total, Trace::kSpansMax);
  EXPECT_EQ(Dropped(tracer, SpanLoss::kBound), 10u);
}

TEST(Tracer, AFullBatchDoesNotWait) {
  StubCollector collector;
  TracerOptions options = OptionsFor(collector);
  options.pause = absl::Hours(1);
  options.batch_max = 3;
  Tracer tracer(options);
  for (int i = 0; i < 3; ++i) MakeCall(&tracer);
  collector.AwaitRequests(1);
  MakeCall(&tracer);
  tracer.Stop();
  EXPECT_EQ(collector.spans().size(), 8u);
}

TEST(Tracer, ARequestHasABoundedNumberOfCalls) {
  absl::Notification release;
  StubCollector collector;
  collector.Queue([&](httplib::Response&) { release.WaitForNotification(); });
  TracerOptions options = OptionsFor(collector);
  options.batch_max = 3;
  Tracer tracer(options);
  MakeCall(&tracer);
  collector.AwaitRequests(1);
  for (int i = 0; i < 7; ++i) MakeCall(&tracer);  // They gather behind the first.
  release.Notify();
  tracer.Stop();
  std::vector<size_t> sizes;
  for (const json& request : collector.requests()) {
    sizes.push_back(request["body"]["resourceSpans"][0]["scopeSpans"][0]["spans"].size());
  }
  EXPECT_THAT(sizes, ElementsAre(2u, 6u, 6u, 2u));
}

TEST(TraceEndpoint, OnlyUrlsOfHttpWithoutSecretsAreTaken) {
  for (const char* fine :
       {"", "http://127.0.0.1:4318/v1/traces", "https://collector.example.org/v1/traces?a=b", "http://[::1]:4318/"}) {
    EXPECT_TRUE(CheckTraceEndpoint(fine).ok()) << fine;
  }
  for (const char* wrong : {"127.0.0.1:4318", "collector", "ftp://a/b", "file:///etc/passwd", "http://", "http://a b/",
                            "http://u:secret@a/", "http://secret@a/", "http://a/#secret", "http://secret@a b/",
                            "a?key=secret", "secret", "secret://a/", "http://a:b/?key=secret"}) {
    const absl::Status status = CheckTraceEndpoint(wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(MessageOf(status), HasSubstr("trace.endpoint")) << wrong;
    EXPECT_THAT(MessageOf(status), Not(HasSubstr("secret"))) << wrong;
  }
}

}  // namespace
}  // namespace lightcone::server
