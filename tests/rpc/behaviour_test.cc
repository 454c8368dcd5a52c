// What the RPC layer does around engine calls: health, deadlines, cancellation, overload, draining.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/rpc/core.h"
#include "server/rpc/server.h"
#include "tests/rpc/fake_engine.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  static_cast<void>(buffer.Dump(&slices));
  std::string out;
  for (const grpc::Slice& slice : slices) out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return out;
}

// grpc.health.v1.HealthCheckRequest { string service = 1; }: the package has no generated code in Debian.
std::string HealthRequest(const std::string& service) {
  return service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
}

class Behaviour : public WireTest {
 protected:
  void ServeFake() {
    auto engine = std::make_unique<FakeEngine>();
    fake_ = engine.get();
    Serve(std::move(engine));
  }

  // Searches block until Release or cancellation.
  void BlockSearches() {
    fake_->on_search = [this](const SearchCall&, const CallContext& context) -> absl::StatusOr<SearchAnswer> {
      ++searches_started_;
      while (!released_.WaitForNotificationWithTimeout(absl::Milliseconds(1))) {
        if (context.cancelled()) {
          ++cancelled_seen_;
          return MakeStatus(absl::StatusCode::kCancelled, "seen by the engine");
        }
      }
      return SearchAnswer{};
    };
  }

  static void WaitFor(const std::atomic<int>& counter, int value) {
    while (counter.load() < value) std::this_thread::yield();
  }

  // The answer's bytes: "\x08\x01" SERVING, "\x08\x02" NOT_SERVING.
  std::string Health(const std::string& service, grpc::Status* status = nullptr) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", Buffer(HealthRequest(service)), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status ended;
    call->Finish(&answer, &ended, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (status != nullptr) *status = ended;
    return Bytes(answer);
  }

  // Not one of the brief searches, which may run on the transport's thread.
  static v1::SearchRequest LongSearch() {
    v1::SearchRequest request = SearchFor("any", {1}, 1);
    request.set_exact(true);
    return request;
  }

  grpc::Status SearchNow() {
    v1::SearchResponse response;
    return Search(LongSearch(), &response);
  }

  FakeEngine* fake_ = nullptr;
  absl::Notification released_;
  std::atomic<int> searches_started_{0}, cancelled_seen_{0};
};

TEST_F(Behaviour, TrialsOfEncodersLeaveAThreadToTheOtherCallsOfOperators) {
  config_.operate_lane.threads = 1;
  ServeFake();
  absl::Notification trying;
  fake_->on_register = [&]() -> absl::StatusOr<GenerationStatus> {
    trying.Notify();
    released_.WaitForNotification();
    return GenerationStatus{};
  };
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::RegisterRequest request;
    request.set_collection("c");
    request.set_encoder("a file");
    v1::RegisterResponse response;
    EXPECT_TRUE(generations_->Register(&context, request, &response).ok());
  });
  trying.WaitForNotification();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::GenerationsListResponse response;
  const grpc::Status listed = generations_->List(&context, {}, &response);
  EXPECT_TRUE(listed.ok()) << listed.error_message();
  released_.Notify();
  caller.join();
}

TEST_F(Behaviour, FewThreadsForOperatorsTryOneEncoderAtOnce) {
  config_.operate_lane.threads = 2;
  Serve();
  EXPECT_EQ(server_->engine().options().encoder_trials_max, 1);
}

TEST_F(Behaviour, HealthKnowsTheServerAndEachService) {
  ServeFake();
  for (const char* name : {"", "lightcone.v1.Retrieval", "lightcone.v1.Collections", "lightcone.v1.Generations",
                           "lightcone.v1.Backfill", "lightcone.v1.Jobs", "lightcone.v1.Training"}) {
    EXPECT_EQ(Health(name), "\x08\x01") << name;
  }
  grpc::Status status;
  Health("lightcone.v1.Nothing", &status);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  server_->BeginDrain();
  EXPECT_EQ(Health(""), "\x08\x02");
  EXPECT_EQ(Health("lightcone.v1.Retrieval"), "\x08\x02");
}

TEST_F(Behaviour, MethodsOfLaterVersionsSaySoAndWhatToDo) {
  ServeFake();
  const auto check = [](const grpc::Status& status, const std::string& method) {
    EXPECT_THAT(status, Fails(StatusCode::UNIMPLEMENTED, method + " is not implemented in this version of Lightcone"));
  };
#define LATER(stub, method, Request, Response)                          \
  {                                                                     \
    grpc::ClientContext context;                                        \
    v1::Response response;                                              \
    check((stub)->method(&context, v1::Request(), &response), #method); \
  }
  LATER(collections_, Snapshot, SnapshotRequest, SnapshotResponse)
  LATER(collections_, Restore, RestoreRequest, RestoreResponse)
#undef LATER
}

TEST_F(Behaviour, ADeadlineAlreadyOverIsSaidWithoutWork) {
  ServeFake();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("any", {1}), &response),
              Fails(StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"));
  CallContext over;
  over.deadline = absl::Now();
  EXPECT_EQ(StillWanted(over, absl::Now()).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(Behaviour, ADeadlineThatPassesInTheQueueIsSaidWithoutWork) {
  FakeEngine engine;
  absl::Notification entered, release;
  std::atomic<int> searches{0};
  engine.on_search = [&](const SearchCall&, const CallContext&) -> absl::StatusOr<SearchAnswer> {
    if (++searches == 1) entered.Notify();
    release.WaitForNotification();
    return SearchAnswer{};
  };
  // The server's clock jumps past the deadline while the second call waits behind the first.
  std::atomic<int64_t> ahead_s{0};
  RpcOptions options;
  options.read_lane = {1, 10};
  options.clock = [&] { return absl::Now() + absl::Seconds(ahead_s.load()); };
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(&engine, options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = grpc::CreateCustomChannel((*server)->address(), grpc::InsecureChannelCredentials(), Arguments());
  const auto stub = v1::Retrieval::NewStub(channel);
  const auto search = [&](std::chrono::hours allowed) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + allowed);
    v1::SearchResponse response;
    return stub->Search(&context, LongSearch(), &response);
  };
  std::thread first([&] { EXPECT_TRUE(search(std::chrono::hours(9)).ok()); });
  entered.WaitForNotification();
  std::thread second([&] {
    EXPECT_THAT(search(std::chrono::hours(1)),
                Fails(StatusCode::DEADLINE_EXCEEDED, "the call's deadline was over before its work began"));
  });
  while ((*server)->Lanes().front().queued == 0) std::this_thread::yield();
  ahead_s = 2 * 3600;
  release.Notify();
  first.join();
  second.join();
  EXPECT_EQ(searches.load(), 1) << "the second was not begun";
  (*server)->Stop();
}

TEST_F(Behaviour, TheEngineSeesTheDeadlineOfTheCall) {
  ServeFake();
  absl::Time seen;
  fake_->on_search = [&](const SearchCall&, const CallContext& context) {
    seen = context.deadline;
    return SearchAnswer{};
  };
  ASSERT_TRUE(SearchNow().ok());
  EXPECT_EQ(seen, absl::InfiniteFuture());
  grpc::ClientContext context;
  const auto deadline = std::chrono::system_clock::now() + std::chrono::minutes(5);
  context.set_deadline(deadline);
  v1::SearchResponse response;
  ASSERT_TRUE(retrieval_->Search(&context, SearchFor("any", {1}), &response).ok());
  EXPECT_LT(absl::AbsDuration(seen - absl::FromChrono(deadline)), absl::Minutes(1));
}

TEST_F(Behaviour, ACancelledCallReachesTheEngine) {
  ServeFake();
  BlockSearches();
  grpc::ClientContext context;
  std::thread caller([&] {
    v1::SearchResponse response;
    EXPECT_EQ(retrieval_->Search(&context, LongSearch(), &response).error_code(), StatusCode::CANCELLED);
  });
  WaitFor(searches_started_, 1);
  context.TryCancel();
  caller.join();
  WaitFor(cancelled_seen_, 1);
}

TEST_F(Behaviour, AFullLaneRefusesAtOnceAndOtherLanesGoOn) {
  config_.read_lane = {1, 1};
  ServeFake();
  BlockSearches();
  std::thread running([&] { EXPECT_TRUE(SearchNow().ok()); });
  WaitFor(searches_started_, 1);
  // One runs and one may wait: of two more, one is refused at once.
  std::atomic<int> refused{0}, answered{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      const grpc::Status status = SearchNow();
      if (status.ok()) {
        ++answered;
      } else {
        EXPECT_THAT(status, Fails(StatusCode::RESOURCE_EXHAUSTED, "1 calls wait in the read queue; allowed: 1"));
        ++refused;
      }
    });
  }
  WaitFor(refused, 1);
  EXPECT_TRUE(Upsert(Batch("any", {"a"})).ok());
  EXPECT_TRUE(Create("any").ok());
  released_.Notify();
  running.join();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(answered.load(), 1);
}

TEST_F(Behaviour, DrainingLetsRunningCallsFinishAndRefusesNewOnes) {
  ServeFake();
  BlockSearches();
  std::thread running([&] { EXPECT_TRUE(SearchNow().ok()); });
  WaitFor(searches_started_, 1);
  server_->BeginDrain();
  EXPECT_THAT(SearchNow(), Fails(StatusCode::UNAVAILABLE, "shutting down"));
  released_.Notify();
  EXPECT_TRUE(server_->Stop(absl::InfiniteDuration()));
  running.join();
}

TEST_F(Behaviour, CallsPastTheDrainLimitAreCancelled) {
  ServeFake();
  BlockSearches();
  std::thread running([&] { EXPECT_FALSE(SearchNow().ok()); });
  WaitFor(searches_started_, 1);
  EXPECT_FALSE(server_->Stop(absl::ZeroDuration()));
  running.join();
  EXPECT_EQ(cancelled_seen_.load(), 1);
}

TEST_F(Behaviour, IdleStreamsAndHealthWatchesDoNotHoldADrainUp) {
  ServeFake();
  grpc::ClientContext stream_context;
  auto stream = retrieval_->UpsertStream(&stream_context);
  v1::UpsertStreamRequest request;
  *request.mutable_batch() = Batch("any", {"a"});
  ASSERT_TRUE(stream->Write(request));
  v1::UpsertStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));

  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  grpc::ClientContext watch_context;
  auto watch = stub.PrepareCall(&watch_context, "/grpc.health.v1.Health/Watch", &queue);
  void* tag = nullptr;
  bool ok = false;
  watch->StartCall(this);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  watch->WriteLast(Buffer(""), grpc::WriteOptions(), this);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer state;
  watch->Read(&state, this);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  EXPECT_EQ(Bytes(state), "\x08\x01");

  EXPECT_TRUE(server_->Stop(absl::InfiniteDuration()));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAVAILABLE);
  // The status comes after the last message, NOT_SERVING.
  while (ok) {
    watch->Read(&state, this);
    ASSERT_TRUE(queue.Next(&tag, &ok));
  }
  grpc::Status ended;
  watch->Finish(&ended, this);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_FALSE(ended.ok());
}

TEST_F(Behaviour, ADrainDeliversTheAnswerOfEveryBatchThatWasRead) {
  ServeFake();
  std::atomic<int> begun{0}, written{0};
  fake_->on_upsert = [&](const UpsertBatch&, const CallContext&) -> absl::StatusOr<WriteResult> {
    ++begun;
    released_.WaitForNotification();
    ++written;
    return WriteResult{1, 1, 1};
  };
  grpc::ClientContext context;
  auto stream = retrieval_->UpsertStream(&context);
  for (int i = 0; i < 4; ++i) {
    v1::UpsertStreamRequest request;
    *request.mutable_batch() = Batch("any", {"a"});
    request.set_tag(i);
    ASSERT_TRUE(stream->Write(request));
  }
  WaitFor(begun, 1);
  server_->BeginDrain();
  released_.Notify();
  EXPECT_TRUE(server_->Stop(absl::InfiniteDuration()));
  int answered = 0;
  for (v1::UpsertStreamResponse answer; stream->Read(&answer); ++answered) {
    EXPECT_TRUE(answer.has_written());
    EXPECT_EQ(answer.tag(), answered);
  }
  EXPECT_THAT(stream->Finish(), Fails(StatusCode::UNAVAILABLE, "every batch that was read is answered"));
  EXPECT_EQ(answered, written.load());
  EXPECT_GE(answered, 1);
}

TEST_F(Behaviour, AStreamHoldsNoMoreBatchesThanItsLimitAndKeepsTheirOrder) {
  config_.stream_batches_max = 2;
  ServeFake();
  std::atomic<int> running{0}, most{0};
  std::vector<std::string> order;
  fake_->on_upsert = [&](const UpsertBatch& batch, const CallContext&) -> absl::StatusOr<WriteResult> {
    most = std::max(most.load(), ++running);
    order.push_back(batch.collection);
    --running;
    return WriteResult{order.size(), 1, 1};
  };
  grpc::ClientContext context;
  auto stream = retrieval_->UpsertStream(&context);
  std::vector<std::string> sent;
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) {
      v1::UpsertStreamRequest request;
      sent.push_back("c" + std::to_string(i));
      *request.mutable_batch() = Batch(sent.back(), {"a"});
      request.set_tag(i);
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  v1::UpsertStreamResponse answer;
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.tag(), i);
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(order, sent);
  EXPECT_EQ(most.load(), 1);
}

TEST_F(Behaviour, PagesFitIntoAMessageAndNothingIsReadTwice) {
  ServeFake();
  // 100 items of 100 kB; the token is the number of the next one.
  std::vector<std::string> asked;
  fake_->on_scroll = [&](int64_t page_size, const std::string& token, int64_t bytes_max) {
    asked.push_back(token);
    EXPECT_GT(bytes_max, 0);
    ScrollPage page;
    int64_t at = token.empty() ? 0 : std::stoll(token), bytes = 0;
    for (; at < 100 && static_cast<int64_t>(page.items.size()) < page_size && bytes < bytes_max; ++at) {
      StoredItem item;
      item.id = ItemId{static_cast<uint64_t>(at)};
      item.payload_json = std::string(100'000, ' ');
      bytes += 100'000;
      page.items.push_back(std::move(item));
    }
    if (at < 100) page.token = std::to_string(at);
    return page;
  };
  grpc::ClientContext context;
  auto reader = retrieval_->Scroll(&context, v1::ScrollRequest());
  v1::ScrollResponse page;
  uint64_t next = 0, pages = 0;
  for (; reader->Read(&page); ++pages) {
    EXPECT_LT(page.ByteSizeLong(), 4u << 20);
    for (const v1::StoredItem& item : page.items()) EXPECT_EQ(item.id().number(), next++);
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(next, 100u);
  EXPECT_EQ(asked.size(), pages);
}

TEST_F(Behaviour, ExceptionsAndLongMessagesBecomeOrdinaryErrors) {
  ServeFake();
  fake_->on_search = [](const SearchCall&, const CallContext&) -> absl::StatusOr<SearchAnswer> {
    throw std::bad_alloc();
  };
  EXPECT_THAT(SearchNow(), Fails(StatusCode::RESOURCE_EXHAUSTED, "out of memory"));
  fake_->on_search = [](const SearchCall&, const CallContext&) -> absl::StatusOr<SearchAnswer> {
    return NotFound("\xff" + std::string(100'000, 'x'));
  };
  const grpc::Status status = SearchNow();
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message().size(), 1'500u);
  EXPECT_THAT(status.error_message(), testing::AllOf(testing::StartsWith("?xxx"), testing::EndsWith("...")));
}

TEST_F(Behaviour, ThreadsThatWriteStandBackBehindThoseThatSearch) {
  config_.write_lane.threads = 7;
  Serve(std::make_unique<FakeEngine>());
  const int expected = std::min(19, getpriority(PRIO_PROCESS, 0) + 5);
  const auto standing_back = [expected] {
    int threads = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      threads += getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(task.path().filename().string()))) == expected;
    }
    return threads;
  };
  const absl::Time give_up = absl::Now() + absl::Minutes(1);  // each says so as it begins
  while (standing_back() < 7 && absl::Now() < give_up) std::this_thread::yield();
  EXPECT_GE(standing_back(), 7);
}

TEST_F(Behaviour, AUnixSocketServesToo) {
  auto engine = std::make_unique<FakeEngine>();
  config_.http_listen = "";
  config_.listen = "unix:" + folder_.path() + "/socket";
  absl::StatusOr<std::unique_ptr<RunningServer>> server = RunningServer::Start(config_, std::move(engine));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  EXPECT_EQ(server_->bound().grpc, config_.listen);
  EXPECT_EQ(server_->bound().http, "");
  Connect();
  EXPECT_TRUE(SearchNow().ok());
  EXPECT_EQ(RunningServer::Start(config_, std::make_unique<FakeEngine>()).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lightcone::server
