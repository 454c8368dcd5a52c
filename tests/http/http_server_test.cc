// The HTTP server with routes and limits that a test decides: what clients can do to it, and what they cannot.
#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/server.h"
#include "tests/http/raw_client.h"

namespace lightcone::server {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr milliseconds kSoon{50};
constexpr size_t kBigBytes = 32 << 20;  // more than the kernel buffers between the two

std::string Request(const std::string& method, const std::string& path, const std::string& headers = "") {
  return StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

// Handlers wait here until a test opens it.
class Gate {
 public:
  void Pass() {
    absl::MutexLock lock(&mutex_);
    ++arrived_;
    mutex_.Await(absl::Condition(&open_));
  }
  void AwaitArrivals(int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() { return arrived_ >= count; };
    mutex_.Await(absl::Condition(&enough));
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }

 private:
  absl::Mutex mutex_;
  int arrived_ = 0;
  bool open_ = false;
};

class HttpServerTest : public testing::Test {
 protected:
  ~HttpServerTest() override { gate_.Open(); }

  static HttpAnswer Text(std::string body) { return {200, kPlainText, std::move(body)}; }

  void Start() {
    HttpServerOptions options;
    options.host = "127.0.0.1";
    options.names = HostNames("vectors.example");
    options.limits = limits_;
    options.not_found = "nothing";
    options.routes.Add(
        {"GET", "/health", RouteAccess::Open(), HttpLane::kIo, true, 0, [](const HttpRequest&) { return Text("ok"); }});
    options.routes.Add({"GET", "/scrape", RouteAccess::Open(), HttpLane::kMetrics, false, 0,
                        [](const HttpRequest&) { return Text("figures"); }});
    options.routes.Add({"GET", "/big", RouteAccess::Open(), HttpLane::kIo, false, 0,
                        [](const HttpRequest&) { return Text(std::string(kBigBytes, 'b')); }});
    options.routes.Add({"GET", "/throws", RouteAccess::Open(), HttpLane::kCalls, false, 0,
                        [](const HttpRequest&) -> HttpAnswer { throw std::runtime_error("broken"); }});
    options.routes.Add({"GET", "/wait", RouteAccess::Open(), HttpLane::kCalls, false, 0, [this](const HttpRequest&) {
                          gate_.Pass();
                          return Text("waited");
                        }});
    options.routes.Add(
        {"POST", "/echo/*", RouteAccess::Open(), HttpLane::kCalls, false, 1 << 20, [](const HttpRequest& request) {
           const auto q = request.query.find("q");
           return Text(StrCat(request.path, " ", q == request.query.end() ? "" : q->second, " ", request.body));
         }});
    auto server = HttpServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }

  std::string Ask(const std::string& request) {
    RawClient client(port());
    client.Send(request);
    return client.ReadAnswer();
  }
  void ExpectHealth() { EXPECT_THAT(Ask(Request("GET", "/health")), StartsWith("HTTP/1.1 200 OK")); }

  HttpLimits limits_;
  Gate gate_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HealthAndMetricsAnswerWhileEveryHandlerIsBlocked) {
  limits_.call_threads = 2;
  limits_.calls_queued_max = 3;
  Start();
  std::deque<RawClient> waiting;
  const auto ask = [&] { waiting.emplace_back(port()).Send(Request("GET", "/wait")); };
  ask();
  ask();
  gate_.AwaitArrivals(2);
  for (int i = 0; i < 3; ++i) ask();
  // Requests reach the queue in the order of the connections, so this one finds it full.
  std::string refused;
  while (refused.empty()) refused = Ask(Request("GET", "/wait"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  ExpectHealth();
  EXPECT_THAT(Ask(Request("GET", "/scrape")), EndsWith("figures"));
  gate_.Open();
  for (RawClient& client : waiting) EXPECT_THAT(client.ReadAnswer(), EndsWith("waited"));
}

TEST_F(HttpServerTest, TheOldestOfTooManySilentConnectionsGivesWay) {
  limits_.connections_max = 8;
  Start();
  RawClient first(port());
  first.Send("GET /health HTTP/1.1\r\nX: never ending");
  std::deque<RawClient> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(port());
  ExpectHealth();
  EXPECT_EQ(first.Read(), "");
  EXPECT_TRUE(silent.back().Send(Request("GET", "/health")));
  EXPECT_THAT(silent.back().ReadAnswer(), EndsWith("ok")) << "the newest have a place";
}

TEST_F(HttpServerTest, AConnectionWhoseRequestIsHandledKeepsItsPlace) {
  limits_.connections_max = 8;
  Start();
  RawClient waiting(port());
  waiting.Send(Request("GET", "/wait"));
  gate_.AwaitArrivals(1);
  std::deque<RawClient> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(port());
  ExpectHealth();
  gate_.Open();
  EXPECT_THAT(waiting.ReadAnswer(), EndsWith("waited"));
}

TEST_F(HttpServerTest, AProcessWithoutDescriptorsStillAnswers) {
  Start();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::deque<RawClient> clients(6);
  std::vector<int> files;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) files.push_back(fd);
  EXPECT_EQ(errno, EMFILE);
  for (RawClient& client : clients) client.Connect(port());
  clients.back().Send(Request("GET", "/health"));
  EXPECT_THAT(clients.back().ReadAnswer(), EndsWith("ok"));
  for (const int fd : files) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  ExpectHealth();
}

TEST_F(HttpServerTest, AHeadOrABodyThatComesTooSlowlyIsAnswered408) {
  limits_.head = limits_.progress = kSoon;
  Start();
  for (const char* begun : {"G", "GET /health HTTP/1.1\r\nHost: localhost\r\n",
                            "POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345"}) {
    RawClient client(port());
    client.Send(begun);
    EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 408 Request Timeout\r\n")) << begun;
  }
}

TEST_F(HttpServerTest, DripsDoNotMoveTheDeadlines) {
  limits_.head = limits_.progress = limits_.linger = milliseconds(100);
  Start();
  std::deque<RawClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(port()).Send(i % 2 == 0 ? "GET /health HTTP/1.1\r\nX: "
                                                 : Request("POST", "/echo/a", "Content-Length: 1000000\r\n"));
  }
  absl::Notification never;
  // Until the server has hung up on every one of them.
  for (bool any = true; any; never.WaitForNotificationWithTimeout(absl::Milliseconds(10))) {
    any = false;
    for (RawClient& client : clients) any |= client.Send("a");
  }
  ExpectHealth();
}

TEST_F(HttpServerTest, AConnectionThatAsksNothingMoreIsClosed) {
  limits_.idle = kSoon;
  Start();
  RawClient client(port());
  client.Send(Request("GET", "/health"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("ok"));
  EXPECT_EQ(client.Read(), "");
  EXPECT_EQ(RawClient(port()).Read(), "");
}

TEST_F(HttpServerTest, AClientThatDoesNotTakeItsAnswerIsLeft) {
  limits_.progress = kSoon;
  Start();
  RawClient client(port());
  client.Send(Request("GET", "/big"));
  RawClient witness(port());  // which is closed later than the other, so that the time has passed
  witness.Send(Request("POST", "/echo/a", "Content-Length: 10\r\n"));
  EXPECT_THAT(witness.Read(), StartsWith("HTTP/1.1 408 "));
  EXPECT_LT(client.Read().size(), kBigBytes);
}

TEST_F(HttpServerTest, AnswersThatNobodyTakesGiveWayToNewOnes) {
  limits_.held_bytes_max = kBigBytes + (1 << 20);
  Start();
  RawClient first(port());
  first.Send(Request("GET", "/big"));
  EXPECT_THAT(Ask(Request("GET", "/big")), EndsWith("bbb"));
  EXPECT_LT(first.Read().size(), kBigBytes);
}

TEST_F(HttpServerTest, BodiesTogetherAreBounded) {
  limits_.held_bytes_max = 300'000;
  Start();
  const std::string head = Request("POST", "/echo/a", "Content-Length: 200001\r\n");
  RawClient first(port()), second(port());
  first.Send(head + std::string(200'000, 'a'));
  second.Send(head + std::string(200'000, 'b'));
  // Neither body has come to its end, and there is no room for both: whichever comes second is refused.
  const bool first_refused = RawClient::AnsweredOf(first, second) == 0;
  RawClient& refused = first_refused ? first : second;
  RawClient& taken = first_refused ? second : first;
  EXPECT_THAT(refused.ReadAnswer(), StartsWith("HTTP/1.1 503 "));
  taken.Send("a");
  EXPECT_THAT(taken.ReadAnswer(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Request("POST", "/echo/a", "Content-Length: 2\r\n") + "ab"), EndsWith("/echo/a  ab"));
}

TEST_F(HttpServerTest, SizesAboveTheLimitsAreRefused) {
  limits_.head_bytes_max = 16 << 10;
  Start();
  const std::string long_text(9 << 10, 'a');
  for (const auto& [request, status] : std::vector<std::pair<std::string, std::string>>{
           {Request("GET", "/" + long_text), "414"},
           {"GET /" + long_text + long_text, "414"},
           {Request("GET", "/health", StrCat("A: ", long_text, "\r\nB: ", long_text, "\r\n")), "431"},
           {Request("POST", "/echo/a", "Content-Length: 1048577\r\n"), "413"},
           {Request("GET", "/health", "Content-Length: 1\r\n"), "413"}}) {
    EXPECT_THAT(Ask(request), StartsWith("HTTP/1.1 " + status)) << request.substr(0, 60);
  }
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefused) {
  Start();
  for (const auto& [request, status] :
       std::vector<std::pair<std::string, std::string>>{{"nonsense\r\n\r\n", "400"},
                                                        {"GET /health HTTP/2.0\r\n\r\n", "400"},
                                                        {"GET health HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
                                                        {Request("GET", "/%4"), "400"},
                                                        {Request("GET", "/%00"), "400"},
                                                        {Request("GET", "/health", "Host: other\r\n"), "400"},
                                                        {Request("GET", "/health", "Expect: tea\r\n"), "417"},
                                                        {Request("GET", "/nothing"), "404"},
                                                        {Request("GET", "/throws"), "500"},
                                                        {Request("TRACE", "/health"), "405"},
                                                        {Request("GET", "/echo/a"), "405"}}) {
    EXPECT_THAT(Ask(request), StartsWith("HTTP/1.1 " + status)) << request;
  }
  EXPECT_THAT(Ask(Request("DELETE", "/health")), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask(Request("GET", "/nothing")), EndsWith("\r\n\r\nnothing\n"));
}

TEST_F(HttpServerTest, AForeignNameIsRefusedButByHealth) {
  Start();
  for (const auto& [host, status] : std::vector<std::pair<std::string, std::string>>{{"localhost:7701", "200"},
                                                                                     {"127.0.0.1:7701", "200"},
                                                                                     {"10.1.2.3", "200"},
                                                                                     {"[::1]:7701", "200"},
                                                                                     {"Vectors.Example", "200"},
                                                                                     {"evil.example", "403"},
                                                                                     {"127.0.0.1.evil.example", "403"},
                                                                                     {"", "403"}}) {
    EXPECT_THAT(Ask(StrCat("GET /scrape HTTP/1.1\r\nHost: ", host, "\r\n\r\n")), StartsWith("HTTP/1.1 " + status))
        << host;
    EXPECT_THAT(Ask(StrCat("GET /health HTTP/1.1\r\nHost: ", host, "\r\n\r\n")), StartsWith("HTTP/1.1 200")) << host;
  }
  EXPECT_THAT(Ask("GET /scrape HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 403"));
}

TEST_F(HttpServerTest, RequestsOfOneConnectionAreAnsweredInTheirOrder) {
  Start();
  RawClient client(port());
  client.Send(Request("POST", "/echo/a%20b?q=c+d", "Content-Length: 3\r\n") + "xyz" + Request("GET", "/scrape") +
              "\r\n" + Request("HEAD", "/health") + Request("GET", "/nothing") + Request("GET", "/health"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\n/echo/a b c d xyz"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\nfigures"));
  EXPECT_THAT(client.ReadAnswer(false), HasSubstr("Content-Length: 2\r\n")) << "HEAD has no body";
  EXPECT_THAT(client.ReadAnswer(), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\nok"));
}

TEST_F(HttpServerTest, AClientThatEndsItsSideGetsItsAnswers) {
  Start();
  RawClient client(port());
  client.Send(Request("GET", "/wait") + Request("GET", "/health"));
  client.EndSending();
  gate_.AwaitArrivals(1);
  gate_.Open();
  EXPECT_THAT(client.ReadAnswer(), EndsWith("waited"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("ok"));
  EXPECT_EQ(client.Read(), "");
  for (const char* begun : {"GET /hea", "POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nab"}) {
    RawClient cut(port());
    cut.Send(begun);
    cut.EndSending();
    EXPECT_THAT(cut.Read(), StartsWith("HTTP/1.1 400 ")) << begun;
  }
}

TEST_F(HttpServerTest, ConnectionsAreKeptAsTheClientWants) {
  Start();
  RawClient closing(port());
  closing.Send(Request("GET", "/health", "Connection: close\r\n"));
  EXPECT_THAT(closing.Read(), HasSubstr("\r\nConnection: close\r\n"));
  RawClient old(port());
  old.Send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.Read(), EndsWith("ok"));
  RawClient kept(port());
  for (int i = 0; i < 2; ++i) {
    kept.Send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_THAT(kept.ReadAnswer(), HasSubstr("\r\nConnection: keep-alive\r\n"));
  }
}

TEST_F(HttpServerTest, ABodyThatWaitsForLeaveGetsIt) {
  Start();
  RawClient client(port());
  client.Send(Request("POST", "/echo/a", "Content-Length: 2\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(client.ReadAnswer(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ab");
  EXPECT_THAT(client.ReadAnswer(), EndsWith("/echo/a  ab"));
  client.Send(Request("POST", "/echo/a", "Content-Length: 2000000\r\nExpect: 100-continue\r\n"));
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, TheEndWaitsForAnswersUnderWayAlone) {
  limits_.call_threads = 1;
  limits_.end = milliseconds(60'000);
  limits_.linger = kSoon;
  Start();
  std::deque<RawClient> idle;
  for (const char* begun :
       {"", "GET /hea", "POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nab"}) {
    idle.emplace_back(port()).Send(begun);
  }
  RawClient kept(port());
  kept.Send(Request("GET", "/health"));
  EXPECT_THAT(kept.ReadAnswer(), EndsWith("ok"));
  RawClient running(port()), queued(port());
  running.Send(Request("GET", "/wait"));
  gate_.AwaitArrivals(1);
  std::thread stop([this] { server_->Stop(); });
  for (RawClient& client : idle) EXPECT_EQ(client.Read(), "");
  EXPECT_EQ(kept.Read(), "");
  gate_.Open();
  const std::string answer = running.Read();
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("waited"));
  stop.join();
}

TEST_F(HttpServerTest, AnAddressInUseIsNamed) {
  Start();
  HttpServerOptions second;
  second.host = "127.0.0.1";
  second.port = port();
  const absl::Status status = HttpServer::Start(std::move(second)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(StrCat("'127.0.0.1:", port(), "' (http)")));
}

}  // namespace
}  // namespace lightcone::server
