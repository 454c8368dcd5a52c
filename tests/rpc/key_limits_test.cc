// Limits of a key over the wire: what is refused and how, and that every end of a call gives its place back.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "lightcone/v1/jobs.grpc.pb.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "tests/rpc/keys_fixture.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;

MATCHER_P2(EndsWith, code, text, "") {
  *result_listener << "code " << arg.error_code() << ", message: " << arg.error_message();
  return arg.error_code() == code && arg.error_message().find(text) != std::string::npos;
}

constexpr auto kExhausted = grpc::StatusCode::RESOURCE_EXHAUSTED;
constexpr char kSearch[] = "/lightcone.v1.Retrieval/Search";
constexpr char kUpsert[] = "/lightcone.v1.Retrieval/Upsert";

// The clock of the limits stands unless a test turns it.
class KeyLimits : public KeysTest {
 protected:
  KeyLimits() {
    steady_clock_ = [this] { return now_ns_.load(); };
  }

  grpc::Status Search(const std::string& key = "limited-key", const std::string& collection = "c") {
    v1::SearchRequest request;
    request.set_collection(collection);
    return CallByName(channel_, kSearch, request.SerializeAsString(), key).status;
  }
  static void ShowKey(grpc::ClientContext* context) {
    context->AddMetadata("api-key", "limited-key");
    context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  }
  int64_t InFlight() const { return keys_->figures().limited.at(0).figures.in_flight; }
  void AwaitNoneInFlight() const {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (InFlight() > 0 && absl::Now() < deadline) std::this_thread::yield();
    ASSERT_EQ(InFlight(), 0);
  }

  std::atomic<int64_t> now_ns_{1'000'000'000};
};

TEST_F(KeyLimits, CallsBeyondTheRateAreToldWhenToComeAgain) {
  Serve(LimitedLine("limited", {.calls_per_second = 2}) + KeyLine("free", auth::kRead));
  EXPECT_TRUE(Search().ok());
  EXPECT_TRUE(CallByName(channel_, "/lightcone.v1.Collections/List", "", "limited-key").status.ok());
  const grpc::Status refused = Search();
  EXPECT_THAT(refused,
              EndsWith(kExhausted, "key 'limited' has used up its calls_per_second; allowed: 2 calls a second"));
  // RetryInfo { retry_delay { nanos: 500'000'000 } }
  EXPECT_THAT(refused.error_details(), HasSubstr("type.googleapis.com/google.rpc.RetryInfo"));
  EXPECT_THAT(refused.error_details(), HasSubstr(std::string("\x0a\x06\x10\x80\xca\xb5\xee\x01", 8)));
  EXPECT_TRUE(Search("free-key").ok());
  EXPECT_TRUE(CallByName(channel_, "/grpc.health.v1.Health/Check", "", "limited-key").status.ok());
  now_ns_ += 500'000'000;
  EXPECT_TRUE(Search().ok());
  EXPECT_THAT(Search(), EndsWith(kExhausted, "calls_per_second"));
  EXPECT_THAT(keys_->figures().limited.at(0).figures.refused_total, testing::ElementsAre(2, 0, 0, 0));
}

TEST_F(KeyLimits, AMessageThatDoesNotParseIsACallAndALargeOneIsNotParsedBeyondTheRate) {
  Serve(LimitedLine("limited", {.calls_per_second = 2}));
  const std::string large(64 << 10, '\xff'), small(16, '\xff');
  EXPECT_THAT(CallByName(channel_, kUpsert, large, "limited-key").status,
              EndsWith(grpc::StatusCode::INVALID_ARGUMENT, ""));
  EXPECT_THAT(CallByName(channel_, kUpsert, small, "limited-key").status,
              EndsWith(grpc::StatusCode::INVALID_ARGUMENT, ""));
  EXPECT_THAT(CallByName(channel_, kUpsert, large, "limited-key").status, EndsWith(kExhausted, "calls_per_second"));
  EXPECT_THAT(CallByName(channel_, kUpsert, small, "limited-key").status, EndsWith(kExhausted, "calls_per_second"));
}

TEST_F(KeyLimits, AReloadGivesNothingBack) {
  const std::string line = LimitedLine("limited", {.calls_per_second = 1});
  Serve(line);
  EXPECT_TRUE(Search().ok());
  Write(line + LimitedLine("limited", {.calls_per_second = 1}, "new-key"));
  AwaitReloads(1);
  EXPECT_THAT(Search(), EndsWith(kExhausted, "calls_per_second"));
  EXPECT_THAT(Search("new-key"), EndsWith(kExhausted, "calls_per_second"));
}

TEST_F(KeyLimits, AUnaryCallHoldsItsPlaceUntilItIsAnsweredOrFails) {
  absl::Notification began, go_on;
  engine_.on_search = [&](const SearchCall& call, const CallContext&) -> absl::StatusOr<SearchAnswer> {
    if (call.collection == "bad") return Internal("broken");
    if (call.collection == "held") {
      began.Notify();
      go_on.WaitForNotification();
    }
    return SearchAnswer{};
  };
  Serve(LimitedLine("limited", {.calls_in_flight_max = 1}));
  std::thread held([this] { EXPECT_TRUE(Search("limited-key", "held").ok()); });
  began.WaitForNotification();
  EXPECT_THAT(Search(), EndsWith(kExhausted, "key 'limited' has used up its calls_in_flight_max; allowed: 1 calls"));
  go_on.Notify();
  held.join();
  // A client that has its answer may call at once.
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Search("limited-key", "bad").error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(CallByName(channel_, kSearch, "\xff", "limited-key").status.error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(Search().ok()) << i;
  }
}

TEST_F(KeyLimits, ACancelledCallGivesItsPlaceBack) {
  absl::Notification began;
  engine_.on_search = [&](const SearchCall&, const CallContext& context) -> absl::StatusOr<SearchAnswer> {
    if (!began.HasBeenNotified()) {
      began.Notify();
      while (!context.cancelled()) std::this_thread::yield();
    }
    return SearchAnswer{};
  };
  Serve(LimitedLine("limited", {.calls_in_flight_max = 1}));
  grpc::ClientContext context;
  ShowKey(&context);
  std::thread caller([&] {
    v1::SearchResponse response;
    EXPECT_EQ(v1::Retrieval::NewStub(channel_)->Search(&context, {}, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  began.WaitForNotification();
  context.TryCancel();
  caller.join();
  AwaitNoneInFlight();
  EXPECT_TRUE(Search().ok());
}

TEST_F(KeyLimits, AStreamIsOneCallAndGivesItsPlaceBackAtItsEnd) {
  Serve(LimitedLine("limited", {.calls_in_flight_max = 1}));
  const auto stub = v1::Retrieval::NewStub(channel_);
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    ShowKey(&context);
    const auto stream = stub->UpsertStream(&context);
    v1::UpsertStreamResponse answer;
    for (int batch = 0; batch < 3; ++batch) {
      v1::UpsertStreamRequest request;
      request.mutable_batch()->set_collection("c");
      ASSERT_TRUE(stream->Write(request));
      ASSERT_TRUE(stream->Read(&answer));
    }
    EXPECT_THAT(Search(), EndsWith(kExhausted, "calls_in_flight_max")) << "the stream is open";
    if (round == 0) {
      stream->WritesDone();
      EXPECT_FALSE(stream->Read(&answer));
      EXPECT_TRUE(stream->Finish().ok());
    } else {
      context.TryCancel();
      EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
      AwaitNoneInFlight();
    }
    EXPECT_TRUE(Search().ok()) << round;
  }
}

TEST_F(KeyLimits, ScrollsAndWatchesGiveTheirPlacesBack) {
  engine_.on_scroll = [](int64_t, const std::string&, int64_t) -> absl::StatusOr<ScrollPage> {
    return Internal("broken");
  };
  Serve(LimitedLine("limited", {.calls_in_flight_max = 1}));
  EXPECT_EQ(CallByName(channel_, "/lightcone.v1.Retrieval/Scroll", "", "limited-key").status.error_code(),
            grpc::StatusCode::INTERNAL);
  EXPECT_TRUE(Search().ok());
  engine_.on_get_job = [](const std::string& id) {
    JobStatus job;
    job.id = id;
    return job;
  };
  grpc::ClientContext context;
  ShowKey(&context);
  v1::JobsWatchRequest request;
  request.set_id("1");
  const auto watch = v1::Jobs::NewStub(channel_)->Watch(&context, request);
  v1::JobsWatchResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_THAT(Search(), EndsWith(kExhausted, "calls_in_flight_max"));
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
  AwaitNoneInFlight();
  EXPECT_TRUE(Search().ok());
}

TEST_F(KeyLimits, ABatchBeyondTheRowsIsAnsweredSoAndTheStreamGoesOn) {
  engine_.on_upsert = [](const UpsertBatch& batch, const CallContext& context) -> absl::StatusOr<WriteResult> {
    LC_RETURN_IF_ERROR(context.meter->TakeWrite(static_cast<int64_t>(batch.items.size()), 0));
    return WriteResult{};
  };
  Serve(LimitedLine("limited", {.rows_per_second = 2}));
  grpc::ClientContext context;
  ShowKey(&context);
  const auto stream = v1::Retrieval::NewStub(channel_)->UpsertStream(&context);
  v1::UpsertStreamRequest request;
  request.mutable_batch()->set_collection("c");
  for (const uint64_t number : {1, 2}) {
    v1::Item* const item = request.mutable_batch()->add_items();
    item->mutable_id()->set_number(number);
    item->mutable_vector()->mutable_floats()->add_values(1);
  }
  v1::UpsertStreamResponse answer;
  const auto send = [&] { return stream->Write(request) && stream->Read(&answer); };
  ASSERT_TRUE(send());
  EXPECT_TRUE(answer.has_written()) << answer.error().message();
  ASSERT_TRUE(send());
  EXPECT_EQ(answer.error().code(), static_cast<int>(kExhausted));
  EXPECT_THAT(answer.error().message(), HasSubstr("key 'limited' has used up its rows_per_second; allowed: 2 rows"));
  now_ns_ += 1'000'000'000;
  ASSERT_TRUE(send());
  EXPECT_TRUE(answer.has_written()) << answer.error().message();
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace lightcone::server
