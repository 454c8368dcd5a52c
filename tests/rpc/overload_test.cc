// What gets through while calls of data are refused: health, operators, watches. Over the wire, with threads that a
// latch holds.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"
#include "httplib.h"
#include "tests/rpc/fake_engine.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

int64_t ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

class Overload : public WireTest {
 protected:
  void ServeFake() {
    auto engine = std::make_unique<FakeEngine>();
    fake_ = engine.get();
    Serve(std::move(engine));
  }
  ~Overload() override {
    if (!released_.HasBeenNotified()) released_.Notify();
    for (std::thread& caller : callers_) caller.join();
  }

  // One search runs and one waits until released_: the only places that there are.
  void FillReads() {
    config_.read_lane.threads = 1;
    config_.read_lane.queue_max = 1;
    ServeFake();
    absl::Notification running;
    fake_->on_search = [this, &running](const SearchCall&, const CallContext&) -> absl::StatusOr<SearchAnswer> {
      if (searches_++ == 0) running.Notify();
      released_.WaitForNotification();
      return SearchAnswer{};
    };
    callers_.emplace_back([this] { EXPECT_TRUE(SearchNow().ok()); });
    running.WaitForNotification();
    // Of two more, one waits and one is refused.
    for (int i = 0; i < 2; ++i) {
      callers_.emplace_back([this] { refused_ += SearchNow().ok() ? 0 : 1; });
    }
    while (refused_.load() == 0) std::this_thread::yield();
  }

  grpc::Status SearchNow(grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    v1::SearchResponse response;
    return retrieval_->Search(context == nullptr ? &own : context, SearchFor("any", {1}, 1), &response);
  }
  grpc::Status RollBack() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::RollbackResponse response;
    return generations_->Rollback(&context, {}, &response);
  }

  FakeEngine* fake_ = nullptr;
  absl::Notification released_;
  std::atomic<int> searches_{0}, refused_{0};
  std::vector<std::thread> callers_;
};

TEST_F(Overload, HealthAndOperatorsGetThroughWhileSearchesAreRefused) {
  FillReads();
  grpc::ClientContext context;
  const grpc::Status refused = SearchNow(&context);
  EXPECT_THAT(refused, Fails(StatusCode::RESOURCE_EXHAUSTED, "1 calls wait in the read queue; allowed: 1"));
  EXPECT_THAT(refused.error_details(), HasSubstr("type.googleapis.com/google.rpc.RetryInfo"));
  // RetryInfo { retry_delay { nanos: 50'000'000 } }
  EXPECT_THAT(refused.error_details(), HasSubstr(std::string("\x0a\x05\x10\x80\xe1\xeb\x17", 7)));
  EXPECT_TRUE(RollBack().ok());
  EXPECT_TRUE(Activate("any", 1, "activate").ok());
  EXPECT_TRUE(Create("any").ok());
  EXPECT_TRUE(Upsert(Batch("any", {"a"})).ok());
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  grpc::ClientContext health_context;
  const grpc::Slice nothing("");
  auto health =
      stub.PrepareUnaryCall(&health_context, "/grpc.health.v1.Health/Check", grpc::ByteBuffer(&nothing, 1), &queue);
  health->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status healthy;
  health->Finish(&answer, &healthy, this);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_TRUE(healthy.ok()) << healthy.error_message();
}

TEST_F(Overload, RefusalsAndWaitsStandInTheMetrics) {
  FillReads();
  httplib::Client scraper(server_->bound().http);
  const auto page = scraper.Get("/metrics");
  ASSERT_TRUE(page);
  for (const char* line :
       {"lightcone_lane_refused_total{lane=\"read\",reason=\"queue_full\"} 1",
        "lightcone_lane_refused_total{lane=\"read\",reason=\"wait\"} 0",
        "lightcone_lane_refused_total{lane=\"write\",reason=\"expired\"} 0",
        "lightcone_lane_rejected_total{lane=\"read\"} 1", "lightcone_lane_wait_seconds_count{lane=\"read\"} 1",
        "lightcone_lane_wait_seconds_bucket{lane=\"read\",le=\"+Inf\"} 1", "lightcone_lane_overloaded{lane=\"read\"} 0",
        "lightcone_watches 0"}) {
    EXPECT_THAT(page->body, HasSubstr(line));
  }
}

TEST_F(Overload, AThousandWatchesTakeNoThreadAndNoOperatorsPlace) {
  config_.operate_lane.threads = 1;
  config_.operate_lane.queue_max = 1;
  ServeFake();
  std::atomic<bool> ended{false};
  fake_->on_get_backfill = [&]() -> absl::StatusOr<BackfillStatus> {
    BackfillStatus status;
    if (!ended.load()) status.state = BackfillState::kRunning;
    return status;
  };
  ASSERT_TRUE(RollBack().ok());
  const int64_t threads = ThreadsOfThisProcess();
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::BackfillWatchResponse>> stream;
  };
  std::vector<Watch> watches(1'000);
  v1::BackfillWatchResponse news;
  for (Watch& watch : watches) watch.stream = backfill_->Watch(&watch.context, {});
  for (Watch& watch : watches) ASSERT_TRUE(watch.stream->Read(&news)) << watch.stream->Finish().error_message();
  EXPECT_TRUE(RollBack().ok());
  EXPECT_LE(ThreadsOfThisProcess(), threads + 16) << "gRPC's own may grow by a few";
  // All of them hear of the end.
  ended = true;
  for (Watch& watch : watches) {
    while (watch.stream->Read(&news)) {
    }
    EXPECT_TRUE(watch.stream->Finish().ok());
  }
}

TEST_F(Overload, ManyStreamsOfReflectionTakeFewThreads) {
  ServeFake();
  ASSERT_TRUE(RollBack().ok());
  const int64_t threads = ThreadsOfThisProcess();
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    grpc::ByteBuffer answer;
    bool served = false;
  };
  std::vector<Stream> streams(100);
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  const auto done = [&queue] {  // one operation is under way at a time
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const grpc::Slice list("\x3a\x00", 2);  // ServerReflectionRequest { list_services: "" }
  int answered = 0;
  for (Stream& stream : streams) {
    stream.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream.call =
        stub.PrepareCall(&stream.context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
    stream.call->StartCall(&stream);
    if (!done()) continue;
    stream.call->Write(grpc::ByteBuffer(&list, 1), &stream);
    if (!done()) continue;
    stream.call->Read(&stream.answer, &stream);
    stream.served = done();
    answered += stream.served ? 1 : 0;
  }
  EXPECT_GE(answered, 8);
  EXPECT_LE(ThreadsOfThisProcess(), threads + 40) << "gRPC's own may grow by a few";
  EXPECT_TRUE(RollBack().ok()) << "calls go on";
  int refused = 0;
  for (Stream& stream : streams) {
    grpc::Status status;
    if (stream.served) stream.context.TryCancel();
    stream.call->Finish(&status, &stream);
    done();
    refused += status.error_code() == StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
  }
  EXPECT_GE(refused, 50);
}

TEST_F(Overload, WatchesHaveABoundOfTheirOwn) {
  config_.watches_max = 1;
  ServeFake();
  std::atomic<bool> ended{false};
  fake_->on_get_backfill = [&]() -> absl::StatusOr<BackfillStatus> {
    BackfillStatus status;
    if (!ended.load()) status.state = BackfillState::kRunning;
    return status;
  };
  v1::BackfillWatchResponse news;
  grpc::ClientContext first_context;
  auto first = backfill_->Watch(&first_context, {});
  ASSERT_TRUE(first->Read(&news));
  grpc::ClientContext second_context;
  const grpc::Status refused = backfill_->Watch(&second_context, {})->Finish();
  EXPECT_THAT(refused, Fails(StatusCode::RESOURCE_EXHAUSTED, "1 watches are open; allowed by rpc.watches_max: 1"));
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));
  ended = true;
  while (first->Read(&news)) {
  }
  EXPECT_TRUE(first->Finish().ok());
  grpc::Status again;
  const absl::Time give_up = absl::Now() + absl::Minutes(1);  // The place is free a moment after the client's end.
  do {
    grpc::ClientContext context;
    auto stream = backfill_->Watch(&context, {});
    while (stream->Read(&news)) {
    }
    again = stream->Finish();
  } while (!again.ok() && absl::Now() < give_up);
  EXPECT_TRUE(again.ok()) << again.error_message();
}

TEST_F(Overload, AWatchThatLooksForLongHoldsNoOperatorUp) {
  config_.operate_lane.threads = 1;
  ServeFake();
  absl::Notification looking;
  fake_->on_get_backfill = [&]() -> absl::StatusOr<BackfillStatus> {
    looking.Notify();
    released_.WaitForNotification();
    return BackfillStatus{};
  };
  grpc::ClientContext context;
  auto watch = backfill_->Watch(&context, {});
  looking.WaitForNotification();
  EXPECT_TRUE(RollBack().ok());
  released_.Notify();
  v1::BackfillWatchResponse news;
  EXPECT_TRUE(watch->Read(&news));
  EXPECT_TRUE(watch->Finish().ok());
}

TEST_F(Overload, ARollbackGoesBeforeOtherCallsOfOperators) {
  config_.operate_lane.threads = 1;
  config_.operate_lane.queue_max = 2;
  ServeFake();
  absl::Notification running;
  absl::Mutex mutex;
  std::vector<std::string> order;
  std::atomic<int> gets{0}, refused{0};
  fake_->on_get_generation = [&]() -> absl::StatusOr<GenerationStatus> {
    if (gets++ == 0) {
      running.Notify();
      released_.WaitForNotification();
    }
    absl::MutexLock lock(&mutex);
    order.push_back("get");
    return GenerationStatus{};
  };
  fake_->on_rollback = [&]() -> absl::StatusOr<ActivateAnswer> {
    absl::MutexLock lock(&mutex);
    order.push_back("rollback");
    return ActivateAnswer{};
  };
  const auto get = [&] {
    grpc::ClientContext context;
    v1::GenerationsGetResponse response;
    refused += generations_->Get(&context, {}, &response).ok() ? 0 : 1;
  };
  callers_.emplace_back(get);
  running.WaitForNotification();
  for (int i = 0; i < 3; ++i) callers_.emplace_back(get);  // Two wait, one is refused.
  while (refused.load() == 0) std::this_thread::yield();
  std::thread mender([&] { EXPECT_TRUE(RollBack().ok()); });
  httplib::Client scraper(server_->bound().http);
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (absl::Now() < give_up) {
    const auto page = scraper.Get("/metrics");
    if (page && page->body.find("lightcone_lane_queued_calls{lane=\"operate\"} 3") != std::string::npos) break;
  }
  released_.Notify();
  mender.join();
  for (std::thread& caller : callers_) caller.join();
  callers_.clear();
  EXPECT_THAT(order, testing::ElementsAre("get", "rollback", "get", "get"));
  EXPECT_EQ(refused.load(), 1);
}

TEST_F(Overload, WorkersThatLeaseTakeNoOperatorsPlace) {
  config_.operate_lane.threads = 1;
  ServeFake();
  absl::Notification running;
  fake_->on_get_generation = [&]() -> absl::StatusOr<GenerationStatus> {
    running.Notify();
    released_.WaitForNotification();
    return GenerationStatus{};
  };
  callers_.emplace_back([&] {
    grpc::ClientContext context;
    v1::GenerationsGetResponse response;
    EXPECT_TRUE(generations_->Get(&context, {}, &response).ok());
  });
  running.WaitForNotification();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::LeaseRequest request;
  request.set_items_max(1);
  v1::LeaseResponse lease;
  const grpc::Status leased = backfill_->Lease(&context, request, &lease);
  EXPECT_TRUE(leased.ok()) << leased.error_message();
}

}  // namespace
}  // namespace lightcone::server
