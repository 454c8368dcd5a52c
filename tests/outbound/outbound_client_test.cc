// Requests to a server on the loopback: what is sent, how an answer is bounded, and what ends a request early.
#include "outbound/outbound_client.h"

#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "tests/support/loopback_server.h"

namespace lightcone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using Code = absl::StatusCode;

constexpr size_t kBound = 1'000;

// Answers as a test says, and keeps what it was sent.
class StubServer {
 public:
  using Answer = std::function<void(httplib::Response& response)>;

  StubServer() {
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      Answer answer;
      {
        const std::lock_guard lock(mutex_);
        seen_.push_back(request);
        answer = answer_;
      }
      if (answer) answer(response);
    };
    server_.handlers().Get(".*", handle);
    server_.handlers().Post(".*", handle);
    server_.handlers().Put(".*", handle);
    server_.handlers().Delete(".*", handle);
    server_.Start(600);  // A test of kept connections must not be decided by time.
  }
  // Waits for the connections: the clients must have closed them.
  void Close() { server_.Close(); }

  std::string UrlOf(const std::string& scheme, const std::string& path = "/") const {
    return StrCat(scheme, "://127.0.0.1:", server_.port(), path);
  }
  void SetAnswer(Answer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  void SetBody(size_t bytes) {
    SetAnswer([=](httplib::Response& response) { response.set_content(std::string(bytes, 'x'), "text/plain"); });
  }
  std::vector<httplib::Request> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  // Number of the connections by which requests came.
  size_t connections() const {
    std::set<int> ports;
    for (const httplib::Request& request : seen()) ports.insert(request.remote_port);
    return ports.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<httplib::Request> seen_;
  Answer answer_;
  LoopbackServer server_;  // the last member: its handlers use the others
};

class OutboundClientTest : public testing::Test {
 protected:
  OutboundRequest RequestFor(const std::string& path = "/") const {
    OutboundRequest request{.url = server_.UrlOf("http", path)};
    request.answer_bytes_max = kBound;
    request.limit = absl::Minutes(10);  // Machines of tests may be slow.
    return request;
  }
  // An answer that does not come before the end of the test.
  void HoldAnswers() {
    server_.SetAnswer([this](httplib::Response&) { end_.WaitForNotification(); });
  }
  void TearDown() override {
    if (!end_.HasBeenNotified()) end_.Notify();
  }
  std::optional<absl::Duration> RetryAfterFor(const std::string& header) {
    server_.SetAnswer([header](httplib::Response& response) {
      response.status = 503;
      if (!header.empty()) response.set_header("Retry-After", header);
    });
    const absl::StatusOr<OutboundReply> reply = client_.Send(RequestFor());
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->retry_after : std::nullopt;
  }

  absl::Notification end_;
  StubServer server_;
  OutboundClient client_;  // the last one: its connections end before the server does
};

TEST_F(OutboundClientTest, MethodHeadersAndBodyAreSentAndStatusAndBodyComeBack) {
  server_.SetAnswer([](httplib::Response& response) {
    response.status = 418;
    response.set_content("short and stout", "text/plain");
  });
  OutboundRequest request = RequestFor("/pot?lid=on");
  request.method = "POST";
  request.headers = {"Content-Type: application/json", "X-Tea: green"};
  request.body = "{}";
  const absl::StatusOr<OutboundReply> reply = client_.Send(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 418);
  EXPECT_EQ(reply->body, "short and stout");
  EXPECT_EQ(reply->retry_after, std::nullopt);
  ASSERT_THAT(server_.seen(), SizeIs(1));
  const httplib::Request seen = server_.seen()[0];
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/pot?lid=on");
  EXPECT_EQ(seen.body, "{}");
  EXPECT_EQ(seen.version, "HTTP/1.1");
  EXPECT_EQ(seen.get_header_value("Content-Type"), "application/json");
  EXPECT_EQ(seen.get_header_value("X-Tea"), "green");
  EXPECT_FALSE(seen.has_header("Expect"));
}

TEST_F(OutboundClientTest, OptionsOfARequestDoNotReachTheNextOneOnTheSameConnection) {
  OutboundRequest put = RequestFor();
  put.method = "PUT";
  put.headers = {"Authorization: Bearer secret"};
  put.body = "text";
  ASSERT_TRUE(client_.Send(put).ok());
  ASSERT_TRUE(client_.Send(RequestFor()).ok());
  OutboundRequest erase = RequestFor();
  erase.method = "DELETE";
  ASSERT_TRUE(client_.Send(erase).ok());
  const std::vector<httplib::Request> seen = server_.seen();
  ASSERT_THAT(seen, SizeIs(3));
  EXPECT_THAT((std::vector{seen[0].method, seen[1].method, seen[2].method}), ElementsAre("PUT", "GET", "DELETE"));
  EXPECT_THAT((std::vector{seen[0].body, seen[1].body, seen[2].body}), ElementsAre("text", "", ""));
  EXPECT_TRUE(seen[0].has_header("Authorization"));
  EXPECT_FALSE(seen[1].has_header("Authorization"));
  EXPECT_EQ(server_.connections(), 1u);
}

TEST_F(OutboundClientTest, AnAnswerBeyondItsBoundIsRefused) {
  server_.SetBody(kBound);
  absl::StatusOr<OutboundReply> reply = client_.Send(RequestFor());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->body, std::string(kBound, 'x'));
  server_.SetBody(kBound + 1);
  reply = client_.Send(RequestFor());
  EXPECT_EQ(reply.status().code(), Code::kResourceExhausted) << reply.status();
  EXPECT_THAT(MessageOf(reply.status()), HasSubstr("more than 1000 bytes"));
}

TEST_F(OutboundClientTest, OfAnAnswerThatIsCutTheBeginningIsKeptAndTheConnectionToo) {
  constexpr size_t kLong = 500'000;  // more than libcurl hands on at once
  server_.SetAnswer([](httplib::Response& response) {
    response.set_content(std::string(kBound, 'a') + std::string(kLong, 'b'), "text/plain");
  });
  OutboundRequest request = RequestFor();
  request.long_answer = LongAnswer::kIsCut;
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<OutboundReply> reply = client_.Send(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->body, std::string(kBound, 'a'));
  }
  EXPECT_EQ(server_.connections(), 1u);
}

TEST_F(OutboundClientTest, ARedirectIsNotFollowed) {
  server_.SetAnswer(
      [this](httplib::Response& response) { response.set_redirect(server_.UrlOf("http", "/elsewhere"), 307); });
  const absl::StatusOr<OutboundReply> reply = client_.Send(RequestFor("/here"));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 307);
  ASSERT_THAT(server_.seen(), SizeIs(1));
  EXPECT_EQ(server_.seen()[0].path, "/here");
}

TEST_F(OutboundClientTest, AProxyOfTheEnvironmentIsNotUsed) {
  for (const char* const name : {"no_proxy", "NO_PROXY"}) ::unsetenv(name);  // else the proxy would be passed by
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  const absl::StatusOr<OutboundReply> reply = client_.Send(RequestFor());
  ::unsetenv("http_proxy");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 200);
}

TEST_F(OutboundClientTest, ACancelledRequestEndsAndTheNextOneIsServed) {
  HoldAnswers();
  OutboundRequest request = RequestFor();
  request.limit = absl::InfiniteDuration();
  request.cancelled = [this] { return !server_.seen().empty(); };
  EXPECT_EQ(client_.Send(request).status().code(), Code::kCancelled);
  server_.SetBody(1);
  const absl::StatusOr<OutboundReply> next = client_.Send(RequestFor());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->body, "x");
  EXPECT_EQ(server_.connections(), 2u);
}

TEST_F(OutboundClientTest, AnAnswerThatDoesNotComeInTimeIsNotWaitedFor) {
  HoldAnswers();
  OutboundRequest request = RequestFor();
  for (const absl::Duration limit : {absl::Milliseconds(50), absl::ZeroDuration(), -absl::InfiniteDuration()}) {
    request.limit = limit;
    EXPECT_EQ(client_.Send(request).status().code(), Code::kDeadlineExceeded) << limit;
  }
}

TEST_F(OutboundClientTest, RetryAfterIsATimeToWaitOrADateToCome) {
  const auto date = [](absl::Duration from_now) {
    return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now() + from_now, absl::UTCTimeZone());
  };
  EXPECT_EQ(RetryAfterFor("7"), absl::Seconds(7));
  EXPECT_EQ(RetryAfterFor("0"), absl::ZeroDuration());
  EXPECT_EQ(RetryAfterFor(""), std::nullopt);
  EXPECT_EQ(RetryAfterFor("soon"), std::nullopt);
  EXPECT_EQ(RetryAfterFor(date(-absl::Hours(1))), std::nullopt);
  const std::optional<absl::Duration> until = RetryAfterFor(date(absl::Hours(1)));
  ASSERT_TRUE(until.has_value());
  EXPECT_GT(*until, absl::ZeroDuration());
  EXPECT_LE(*until, absl::Hours(1));
}

TEST_F(OutboundClientTest, ASchemeThatIsNotAmongThoseGivenIsRefusedBeforeAnythingIsSent) {
  OutboundRequest request = RequestFor();
  request.schemes = "https";
  absl::Status refused = client_.Send(request).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused;
  EXPECT_THAT(MessageOf(refused), HasSubstr("rotocol"));
  request = RequestFor();
  request.url = server_.UrlOf("ftp");
  refused = client_.Send(request).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused;
  EXPECT_THAT(MessageOf(refused), HasSubstr("rotocol"));
  EXPECT_THAT(server_.seen(), SizeIs(0));
}

TEST_F(OutboundClientTest, AServerThatIsGoneIsUnavailableAndNoMessageHoldsASecret) {
  server_.Close();
  OutboundRequest request = RequestFor("/secret");
  request.headers = {"Authorization: Bearer secret"};
  const absl::Status gone = client_.Send(request).status();
  EXPECT_EQ(gone.code(), Code::kUnavailable) << gone;
  EXPECT_THAT(MessageOf(gone), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace lightcone
