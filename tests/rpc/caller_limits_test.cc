// What one caller may take of a server: messages that would become large, the memory of many calls, lists in pages.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpcpp/generic/generic_stub.h"
#include "httplib.h"
#include "server/rpc/server.h"
#include "tests/rpc/fake_engine.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using testing::Not;

class CallerLimits : public WireTest {
 protected:
  void ServeFake() {
    auto engine = std::make_unique<FakeEngine>();
    fake_ = engine.get();
    Serve(std::move(engine));
  }

  // Status of a unary call whose request has these bytes.
  grpc::Status Send(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const grpc::Slice slice(bytes);
    const auto call = stub.PrepareUnaryCall(&context, "/lightcone.v1." + method, grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status ended;
    call->Finish(&answer, &ended, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ended;
  }

  // The lines of /metrics about finished calls of a method.
  std::vector<std::string> CallsOf(const std::string& method) {
    httplib::Client client("http://" + server_->bound().http);
    const auto page = client.Get("/metrics");
    std::vector<std::string> lines;
    if (!page) return lines;
    for (const auto& line : absl::StrSplit(page->body, '\n')) {
      const std::string text(line);
      if (text.rfind("lightcone_requests_total{", 0) == 0 && text.find('"' + method + '"') != std::string::npos) {
        lines.push_back(text);
      }
    }
    return lines;
  }

  static std::string Repeated(const std::string& element, size_t bytes) {
    std::string out;
    out.reserve(bytes + element.size());
    while (out.size() < bytes) out += element;
    return out;
  }

  static v1::UpsertRequest Large(const std::string& payload) {
    v1::UpsertRequest request = Batch("gallery", {"a"});
    request.mutable_items(0)->set_payload_json("{\"text\":\"" + payload + "\"}");
    return request;
  }

  FakeEngine* fake_ = nullptr;
};

TEST_F(CallerLimits, MessagesThatWouldBecomeLargeAreRefusedAndCounted) {
  ServeFake();
  const auto refused = [&](const std::string& method, const std::string& bytes, const std::string& field) {
    const grpc::Status status = Send(method, bytes);
    EXPECT_THAT(status, Fails(StatusCode::INVALID_ARGUMENT, "field '" + field + "' is ")) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("elements that take")) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("8 times its own")) << method;
    EXPECT_THAT(CallsOf(method), testing::Contains(HasSubstr("INVALID_ARGUMENT"))) << method;
  };
  constexpr size_t kBytes = 2 << 20;
  v1::CountRequest count;
  const std::string exists("\x0a\x02\x3a\x00", 4);  // Filter.or.of: exists {}
  std::string any = Repeated(exists, kBytes);
  ASSERT_TRUE(count.mutable_filter()->mutable_or_()->ParseFromString(any));
  refused("Retrieval/Count", count.SerializeAsString(), "FilterOr.of");
  refused("Retrieval/Upsert", Repeated(std::string("\x1a\x00", 2), kBytes), "UpsertRequest.items");
  refused("Retrieval/Get", Repeated(std::string("\x12\x00", 2), kBytes), "GetRequest.ids");
  v1::SearchRequest search;
  for (size_t i = 0; i < kBytes; ++i) search.add_evaluate_generations(1);
  refused("Retrieval/Search", search.SerializeAsString(), "SearchRequest.evaluate_generations");
}

TEST_F(CallerLimits, ScrollsAndUnreadableBytesAreRefusedAndCounted) {
  ServeFake();
  v1::ScrollRequest scroll;
  ASSERT_TRUE(
      scroll.mutable_filter()->mutable_or_()->ParseFromString(Repeated(std::string("\x0a\x02\x3a\x00", 4), 2 << 20)));
  grpc::ClientContext context;
  v1::ScrollResponse page;
  auto reader = retrieval_->Scroll(&context, scroll);
  EXPECT_FALSE(reader->Read(&page));
  EXPECT_THAT(reader->Finish(), Fails(StatusCode::INVALID_ARGUMENT, "elements that take"));
  EXPECT_THAT(CallsOf("Retrieval/Scroll"), testing::Contains(HasSubstr("INVALID_ARGUMENT")));
  EXPECT_THAT(Send("Retrieval/Count", "\x0a\x01\xff"),
              Fails(StatusCode::INVALID_ARGUMENT, "the message is no CountRequest: field 'collection' is no UTF-8"));
  EXPECT_THAT(Send("Jobs/Get", "\x0a\x7f"),
              Fails(StatusCode::INVALID_ARGUMENT, "the message is no JobsGetRequest: its bytes are not in the wire"));
  EXPECT_THAT(CallsOf("Jobs/Get"), testing::Contains(HasSubstr("INVALID_ARGUMENT")));
}

TEST_F(CallerLimits, EveryMethodChecksItsRequests) {
  ServeFake();
  for (const std::string& method : MethodNames()) {
    if (method == "Retrieval/UpsertStream" || method == "Snapshots/UploadSnapshot") continue;  // streams of requests
    EXPECT_THAT(Send(method, "\x0a"), Fails(StatusCode::INVALID_ARGUMENT, "the message is no ")) << method;
  }
}

TEST_F(CallerLimits, AMethodTakesNoMoreBytesThanItNeeds) {
  ServeFake();
  v1::GenerationsListRequest list;
  list.set_collection(std::string((1 << 20) + 1, 'a'));
  EXPECT_THAT(Send("Generations/List", list.SerializeAsString()),
              Fails(StatusCode::RESOURCE_EXHAUSTED, "at most 1048576 bytes for Generations/List"));
  EXPECT_THAT(CallsOf("Generations/List"), testing::Contains(HasSubstr("RESOURCE_EXHAUSTED")));
}

TEST_F(CallerLimits, CompressedRequestsAreRefused) {
  ServeFake();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::CountRequest count;
  count.set_collection(std::string(1 << 20, 'a'));
  v1::CountResponse counted;
  EXPECT_THAT(retrieval_->Count(&context, count, &counted), Fails(StatusCode::UNIMPLEMENTED, "gzip"));
}

TEST_F(CallerLimits, AFilterOfManyConditionsIsRefusedBeforeItIsConverted) {
  ServeFake();
  v1::CountRequest count;
  for (int i = 0; i < 1'024; ++i) count.mutable_filter()->mutable_and_()->add_of()->mutable_exists()->set_field("a");
  grpc::ClientContext context;
  v1::CountResponse counted;
  EXPECT_THAT(retrieval_->Count(&context, count, &counted),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'filter' is of more than 1024 nodes; allowed: at most 1024"));
  count.mutable_filter()->mutable_and_()->mutable_of()->RemoveLast();
  grpc::ClientContext again;
  EXPECT_TRUE(retrieval_->Count(&again, count, &counted).ok());
}

// A server that parses 1 MiB at once; writes wait until Release.
class SmallBudget : public CallerLimits {
 protected:
  void SetUp() override {
    config_.parsed_bytes_max = 1 << 20;
    ServeFake();
    fake_->on_upsert = [this](const UpsertBatch& batch, const CallContext&) -> absl::StatusOr<WriteResult> {
      if (batch.generation != 0) return WriteResult{};  // a write that nobody holds
      if (!running_.HasBeenNotified()) running_.Notify();
      released_.WaitForNotification();
      return WriteResult{};
    };
  }

  absl::Notification running_, released_;
};

TEST_F(SmallBudget, CallsBeyondItAreToldToRetryUntilOthersEnd) {
  const v1::UpsertRequest large = Large(std::string(600 << 10, 'x'));
  std::thread holder([&] { EXPECT_TRUE(Upsert(large).ok()); });
  running_.WaitForNotification();
  const grpc::Status refused = Upsert(large);
  EXPECT_THAT(refused, Fails(StatusCode::RESOURCE_EXHAUSTED, "field 'rpc.parsed_bytes_max' is 1048576"));
  EXPECT_THAT(refused.error_message(), HasSubstr("retry later"));
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));
  EXPECT_THAT(CallsOf("Retrieval/Upsert"), testing::Contains(HasSubstr("RESOURCE_EXHAUSTED")));
  v1::UpsertRequest small = Batch("gallery", {"b"});
  small.set_generation(1);
  EXPECT_TRUE(Upsert(small).ok()) << "what fits goes on";
  released_.Notify();
  holder.join();
  // The transport gives a call's messages back a little after its answer.
  grpc::Status later;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  do {
    later = Upsert(large);
  } while (later.error_code() == StatusCode::RESOURCE_EXHAUSTED && absl::Now() < end);
  EXPECT_TRUE(later.ok()) << later.error_message();
}

TEST_F(SmallBudget, ARequestLargerThanAllOfItIsNotToldToRetry) {
  const grpc::Status refused = Upsert(Large(std::string(2 << 20, 'x')));
  EXPECT_THAT(refused, Fails(StatusCode::RESOURCE_EXHAUSTED, "for this request alone"));
  EXPECT_THAT(refused.error_details(), Not(HasSubstr("google.rpc.RetryInfo")));
  released_.Notify();
}

TEST_F(SmallBudget, AStreamAnswersABatchBeyondItAndGoesOn) {
  const v1::UpsertRequest large = Large(std::string(600 << 10, 'x'));
  std::thread holder([&] { EXPECT_TRUE(Upsert(large).ok()); });
  running_.WaitForNotification();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto stream = retrieval_->UpsertStream(&context);
  v1::UpsertStreamRequest request;
  *request.mutable_batch() = large;
  request.set_tag(7);
  ASSERT_TRUE(stream->Write(request));
  v1::UpsertStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.tag(), 7u);
  EXPECT_EQ(answer.error().code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(answer.error().violation().field(), "rpc.parsed_bytes_max");
  *request.mutable_batch() = Batch("gallery", {"b"});
  request.mutable_batch()->set_generation(1);
  request.set_tag(8);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.tag(), 8u);
  EXPECT_TRUE(answer.has_written());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  released_.Notify();
  holder.join();
}

TEST_F(SmallBudget, AStreamGivesBackWhatItsAnsweredBatchesTook) {
  v1::UpsertStreamRequest request;
  *request.mutable_batch() = Large(std::string(600 << 10, 'x'));
  request.mutable_batch()->set_generation(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto stream = retrieval_->UpsertStream(&context);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(stream->Write(request));
    v1::UpsertStreamResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_TRUE(answer.has_written()) << answer.ShortDebugString();
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace lightcone::server
