// The client against a server that fails as it is told to.
#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

#include "base/retry_after.h"
#include "base/status.h"
#include "client/scroll_cursor.h"
#include "client/snapshots.h"
#include "client/upsert_stream.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/duration.pb.h"
#include "tests/client/scripted_server.h"
#include "tests/support/tcp_relay.h"

namespace lightcone::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const grpc::Status kAway(grpc::StatusCode::UNAVAILABLE, "away");

std::unique_ptr<Client> ClientOf(const std::string& address, int retries = 4, bool retry_writes = false) {
  ClientOptions options;
  options.retry_writes = retry_writes;
  options.address = address;
  options.retries_max = retries;
  options.timeout = absl::Seconds(20);
  options.backoff_first = absl::Milliseconds(1);
  options.backoff_max = absl::Milliseconds(5);
  return Client::Connect(options).value();
}

std::unique_ptr<SnapshotClient> SnapshotsOf(const std::string& address, int retries) {
  return SnapshotClient::Connect(ClientOf(address, retries)->options()).value();
}

// RESOURCE_EXHAUSTED with a google.rpc.RetryInfo, as a google.rpc.Status has it.
grpc::Status BusyFor(int64_t seconds, int32_t nanos) {
  const auto field = [](char tag, const std::string& bytes) {
    EXPECT_LT(bytes.size(), 128u);
    return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
  };
  google::protobuf::Duration delay;
  delay.set_seconds(seconds);
  delay.set_nanos(nanos);
  google::protobuf::Any any;
  any.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any.set_value(field('\x0a', delay.SerializeAsString()));
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "overloaded", "\x08\x08" + field('\x1a', any.SerializeAsString())};
}

TEST(ClientOptions, NamesTheFieldThatIsNotAllowed) {
  const auto message = [](const ClientOptions& options) { return MessageOf(Client::Connect(options).status()); };
  EXPECT_THAT(message({.address = "nonsense"}), HasSubstr("field 'address' is 'nonsense'; allowed: HOST:PORT"));
  EXPECT_THAT(message({.timeout = absl::ZeroDuration()}), HasSubstr("field 'timeout'"));
  EXPECT_THAT(message({.retries_max = 101}), HasSubstr("field 'retries_max' is 101; allowed: 0 .. 100"));
  EXPECT_THAT(message({.backoff_first = absl::Seconds(3)}), HasSubstr("field 'backoff_max'"));
  EXPECT_THAT(message({.message_bytes_max = 0}), HasSubstr("field 'message_bytes_max'"));
  EXPECT_THAT(message({.keepalive = absl::ZeroDuration()}), HasSubstr("field 'keepalive' is 0; allowed: 1s .. 1h"));
}

TEST(Retries, AReadIsTriedAgainUntilTheServerIsBack) {
  ScriptedServer server;
  server.Script({kAway, kAway});
  const auto answer = ClientOf(server.address())->Count({});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->count(), 42);
  EXPECT_EQ(server.calls(), 3);
}

TEST(Retries, StopAfterTheLastTry) {
  ScriptedServer server;
  server.Script({kAway, kAway, kAway, kAway});
  const auto answer = ClientOf(server.address(), /*retries=*/2)->Count({});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.calls(), 3);
}

TEST(Retries, ACallMaySwitchThemOff) {
  ScriptedServer server;
  server.Script({kAway});
  const auto answer = ClientOf(server.address())->Count({}, {.retries_max = 0});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.calls(), 1);
}

TEST(Retries, AWriteIsMadeOnceUnlessTheClientSaysOtherwise) {
  ScriptedServer server;
  server.Script({kAway});
  EXPECT_EQ(ClientOf(server.address())->Upsert({}, {.retries_max = 3}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.calls(), 1) << "its answer may be lost, and another writer may have come between";
  server.Script({kAway});
  EXPECT_EQ(ClientOf(server.address())->Delete({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.calls(), 2);
  server.Script({kAway, kAway});
  EXPECT_TRUE(ClientOf(server.address(), /*retries=*/4, /*retry_writes=*/true)->Upsert({}).ok());
  EXPECT_EQ(server.calls(), 5);
}

TEST(Retries, AreNotForOverloadOrRefusal) {
  ScriptedServer server;
  for (const auto code : {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::FAILED_PRECONDITION,
                          grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::ABORTED}) {
    const int before = server.calls();
    server.Script({grpc::Status(code, "no")});
    EXPECT_EQ(static_cast<int>(ClientOf(server.address())->Count({}).status().code()), static_cast<int>(code));
    EXPECT_EQ(server.calls(), before + 1);
  }
}

TEST(Retries, OfAnOperatorCallKeepItsRequestId) {
  ScriptedServer server;
  const auto client = ClientOf(server.address());
  server.Script({kAway});
  ASSERT_TRUE(client->DropCollection({}).ok());
  ASSERT_TRUE(client->DropCollection({}).ok());
  v1::DropRequest named;
  named.set_request_id("mine");
  ASSERT_TRUE(client->DropCollection(named).ok());
  const std::vector<std::string> ids = server.request_ids();
  ASSERT_THAT(ids, SizeIs(4));
  EXPECT_THAT(ids[0], SizeIs(32));
  EXPECT_EQ(ids[0], ids[1]) << "a retry is the same call";
  EXPECT_NE(ids[1], ids[2]) << "the next call is another";
  EXPECT_EQ(ids[3], "mine");
}

TEST(Retries, ARestoreAndASnapshotThatMeetAnotherCallAreTriedUntilTheirTurn) {
  const grpc::Status ended(grpc::StatusCode::ABORTED, "the same request ended meanwhile");
  const grpc::Status busy = BusyFor(0, 1'000'000);
  const auto restore = [](SnapshotClient& client) { return client.RestoreCollection({}).status(); };
  const auto create = [](SnapshotClient& client) { return client.Create({}).status(); };
  for (const std::function<absl::Status(SnapshotClient&)>& call : {std::function(restore), std::function(create)}) {
    ScriptedServer server;
    server.Script({kAway, busy, busy, busy, ended, busy, busy});
    const absl::Status status = call(*SnapshotsOf(server.address(), /*retries=*/2));
    EXPECT_TRUE(status.ok()) << status << ": a refusal with a time is no retry";
    EXPECT_EQ(server.calls(), 8);
    const std::vector<std::string> ids = server.request_ids();
    EXPECT_THAT(ids, Each(SizeIs(32)));
    EXPECT_THAT(ids, Each(ids.front())) << "a retry is the same call";
  }
}

TEST(Retries, ARestoreGivesUpWithoutATimeOfTheNextTryAndWithoutTimeForIt) {
  const auto calls_after = [](const grpc::Status& status, int retries) {
    ScriptedServer server;
    server.Script({status, status, status});
    const absl::Status ended = SnapshotsOf(server.address(), retries)->RestoreCollection({}).status();
    EXPECT_EQ(static_cast<int>(ended.code()), static_cast<int>(status.error_code()));
    return server.calls();
  };
  EXPECT_EQ(calls_after(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the disk is full"), 4), 1);
  EXPECT_EQ(calls_after(BusyFor(3'600, 0), 4), 1) << "the deadline comes first";
  EXPECT_EQ(calls_after(BusyFor(0, 1'000'000), 0), 1) << "retries are off";
  EXPECT_EQ(calls_after(grpc::Status(grpc::StatusCode::ABORTED, "repeat the call"), 2), 3);
  EXPECT_EQ(calls_after(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no"), 4), 1);
}

TEST(Deadlines, OneThatIsOverSaysSo) {
  ScriptedServer server;
  const auto answer = ClientOf(server.address())->Count({}, {.timeout = absl::Milliseconds(-1)});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Deadlines, BoundTheRetries) {
  ScriptedServer server;
  server.Stop();
  const auto client = ClientOf(server.address(), /*retries=*/100);
  const auto answer = client->Count({}, {.timeout = absl::Milliseconds(50)});
  EXPECT_THAT(answer.status().code(),
              testing::AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded));
}

TEST(Deadlines, ACallWithoutOneEndsWhenItsHostVanishes) {
  ScriptedServer server;
  absl::Notification counting;
  server.count_hangs = &counting;
  TcpRelay relay(server.address());
  const auto client = Client::Connect({.address = relay.address(), .retries_max = 0, .keepalive = absl::Seconds(1)});
  ASSERT_TRUE(client.ok()) << client.status();
  std::thread vanishing([&] {
    counting.WaitForNotification();
    relay.FallSilent();
  });
  // Without keepalive it would wait for ever; the minute only ends the test then.
  const absl::Status status = (*client)->Count({}, {.timeout = absl::Minutes(1)}).status();
  vanishing.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST(Errors, CarryTheFieldTheValueAndWhatIsAllowed) {
  v1::FieldViolation violation;
  violation.set_field("k");
  violation.set_value("0");
  violation.set_allowed("1 .. 10000");
  google::protobuf::Any any;
  any.PackFrom(violation);
  // google.rpc.Status: code = 1 (varint), message = 2, details = 3.
  const std::string bytes = any.SerializeAsString();
  ASSERT_LT(bytes.size(), 128u);
  std::string details = std::string("\x08\x03\x12\x02no\x1a", 7) + static_cast<char>(bytes.size()) + bytes;
  ScriptedServer server;
  server.Script({grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "query 3: field 'k' is 0", details)});
  const absl::Status status = ClientOf(server.address())->Count({}).status();
  EXPECT_EQ(MessageOf(status), "query 3: field 'k' is 0") << "the server's words stay as they are";
  const FieldErrorParts parts = PartsOf(status);
  EXPECT_EQ(parts.field, "k");
  EXPECT_EQ(parts.value, "0");
  EXPECT_EQ(parts.allowed, "1 .. 10000");
}

TEST(Errors, CarryTheTimeAfterWhichToRetry) {
  ScriptedServer server;
  server.Script({BusyFor(2, 500'000'000)});
  const absl::Status status = ClientOf(server.address())->Count({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(2'500));
  EXPECT_EQ(RetryAfterOf(ClientOf(server.address())->Count({}, {.timeout = absl::Milliseconds(-1)}).status()),
            std::nullopt);
}

TEST(Errors, BrokenDetailsAreNoDetails) {
  ScriptedServer server;
  for (const std::string& details : {std::string("\x1a\xff\xff\xff\xff\x0f", 6), std::string("\x1a\x05junk!", 7)}) {
    server.Script({grpc::Status(grpc::StatusCode::INTERNAL, "oops", details)});
    const absl::Status status = ClientOf(server.address())->Count({}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(PartsOf(status).field, "");
  }
}

TEST(Collections, AllPagesAreRead) {
  ScriptedServer server;
  const auto all = ClientOf(server.address())->AllCollections();
  ASSERT_TRUE(all.ok());
  ASSERT_THAT(*all, SizeIs(2));
  EXPECT_EQ((*all)[1].name(), "second");
}

TEST(Health, AServerWithoutHealthServiceIsUnimplementedAndNoServerIsUnavailable) {
  ScriptedServer server;
  EXPECT_EQ(ClientOf(server.address())->CheckHealth().code(), absl::StatusCode::kUnimplemented);
  server.Stop();
  const auto client = ClientOf(server.address(), /*retries=*/0);
  EXPECT_EQ(client->CheckHealth().code(), absl::StatusCode::kUnavailable);
  const absl::Status status = client->WaitUntilServing(absl::Milliseconds(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status), HasSubstr(server.address()));
}

std::vector<uint64_t> ReadAll(ScrollCursor* cursor, absl::Status* status) {
  std::vector<uint64_t> ids;
  v1::ScrollResponse page;
  for (;;) {
    const absl::StatusOr<bool> more = cursor->Next(&page);
    *status = more.status();
    if (!more.ok() || !*more) return ids;
    for (const auto& item : page.items()) ids.push_back(item.id().number());
  }
}

TEST(Scroll, ResumesByTokenAfterABrokenStream) {
  ScriptedServer server;
  server.break_scroll_after = 4;
  absl::Status status;
  const auto client = ClientOf(server.address());
  const auto cursor = client->Scroll({});
  EXPECT_THAT(ReadAll(cursor.get(), &status), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(server.calls(), 2);
}

TEST(Scroll, KeepsItsLimitWhenItResumes) {
  ScriptedServer server;
  server.break_scroll_after = 2;
  v1::ScrollRequest request;
  request.set_limit(5);
  absl::Status status;
  const auto client = ClientOf(server.address());
  EXPECT_THAT(ReadAll(client->Scroll(request).get(), &status), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Scroll, AnErrorThatIsNoBreakIsTold) {
  ScriptedServer server;
  server.break_scroll_after = 2;
  server.break_with = grpc::Status(grpc::StatusCode::NOT_FOUND, "no collection 'x'");
  absl::Status status;
  const auto client = ClientOf(server.address());
  const auto cursor = client->Scroll({});
  EXPECT_THAT(ReadAll(cursor.get(), &status), ElementsAre(0, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cursor->token(), "2");
}

struct Outcomes {
  std::vector<uint64_t> written, refused;
  AcknowledgeCallback callback() {
    return [this](uint64_t tag, const absl::StatusOr<v1::UpsertResponse>& outcome) {
      (outcome.ok() ? written : refused).push_back(tag);
    };
  }
};

TEST(UpsertStream, AcknowledgesEveryBatchInOrder) {
  ScriptedServer server;
  Outcomes outcomes;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.in_flight_max = 3, .on_acknowledge = outcomes.callback()});
  for (uint64_t tag = 0; tag < 50; ++tag) ASSERT_TRUE(stream->Send({}, tag).ok());
  ASSERT_TRUE(stream->Finish().ok());
  ASSERT_THAT(outcomes.written, SizeIs(50));
  EXPECT_TRUE(std::is_sorted(outcomes.written.begin(), outcomes.written.end()));
}

TEST(UpsertStream, ARefusedBatchDoesNotStopTheOthers) {
  ScriptedServer server;
  server.refuse_tag = 1;
  Outcomes outcomes;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.on_acknowledge = outcomes.callback()});
  for (uint64_t tag = 0; tag < 4; ++tag) ASSERT_TRUE(stream->Send({}, tag).ok());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(outcomes.refused, ElementsAre(1));
  EXPECT_THAT(outcomes.written, ElementsAre(0, 2, 3));
}

TEST(UpsertStream, ReconnectsAndSendsAgainWhatWasNotAcknowledged) {
  ScriptedServer server;
  server.break_stream_after = 5;
  Outcomes outcomes;
  const auto client = ClientOf(server.address(), /*retries=*/4, /*retry_writes=*/true);
  const auto stream = client->OpenUpsertStream({.in_flight_max = 4, .on_acknowledge = outcomes.callback()});
  for (uint64_t tag = 0; tag < 20; ++tag) ASSERT_TRUE(stream->Send({}, tag).ok());
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_THAT(outcomes.written, SizeIs(20)) << "each batch is acknowledged once";
  EXPECT_TRUE(std::is_sorted(outcomes.written.begin(), outcomes.written.end()));
  EXPECT_GE(server.tags().size(), 21u) << "the batch at the break travelled twice";
}

TEST(UpsertStream, FailsAtABreakWhenWritesAreNotRetried) {
  ScriptedServer server;
  server.break_stream_after = 2;
  Outcomes outcomes;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.in_flight_max = 1, .on_acknowledge = outcomes.callback()});
  absl::Status status;
  for (uint64_t tag = 0; tag < 10 && status.ok(); ++tag) status = stream->Send({}, tag);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(outcomes.written, ElementsAre(0, 1));
  EXPECT_THAT(server.tags(), ElementsAre(0, 1, 2)) << "nothing travelled twice";
}

TEST(UpsertStream, GivesUpOnAnErrorThatIsNoBreak) {
  ScriptedServer server;
  server.break_stream_after = 1;
  server.break_with = grpc::Status(grpc::StatusCode::NOT_FOUND, "no collection 'x'");
  Outcomes outcomes;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.in_flight_max = 1, .on_acknowledge = outcomes.callback()});
  absl::Status status;
  for (uint64_t tag = 0; tag < 10 && status.ok(); ++tag) status = stream->Send({}, tag);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(outcomes.written, ElementsAre(0));
}

TEST(UpsertStream, GivesUpWhenNothingIsAcknowledgedInTime) {
  ScriptedServer server;
  server.never_acknowledge = true;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.in_flight_max = 1, .timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(stream->Send({}, 0).ok());
  EXPECT_EQ(stream->Send({}, 1).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
}

// More than a connection takes from a sender whose peer reads nothing, and less than a message may have.
v1::UpsertRequest LargeBatch() {
  v1::UpsertRequest batch;
  batch.add_items()->set_payload_json(std::string(2 << 20, ' '));
  return batch;
}

TEST(UpsertStream, GivesUpInTimeWhenTheServerReadsNothing) {
  ScriptedServer server;
  server.never_read_from = 1;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.timeout = absl::Milliseconds(50)});
  absl::Status status;
  for (uint64_t tag = 0; tag < 8 && status.ok(); ++tag) status = stream->Send(LargeBatch(), tag);
  EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(UpsertStream, GivesUpInTimeWhenTheServerReadsNothingAfterABreak) {
  ScriptedServer server;
  server.break_stream_after = 0;
  server.never_read_from = 2;
  const auto client = ClientOf(server.address(), /*retries=*/4, /*retry_writes=*/true);
  const auto stream = client->OpenUpsertStream({.timeout = absl::Milliseconds(200)});
  absl::Status status;
  for (uint64_t tag = 0; tag < 8 && status.ok(); ++tag) status = stream->Send(LargeBatch(), tag);
  EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(UpsertStream, RefusesAnOptionThatIsNotAllowed) {
  ScriptedServer server;
  const auto client = ClientOf(server.address());
  EXPECT_THAT(MessageOf(client->OpenUpsertStream({.in_flight_max = 0})->Send({}, 0)),
              HasSubstr("field 'in_flight_max' is 0; allowed: 1 .. 1024"));
}

TEST(UpsertStream, MayBeAbandoned) {
  ScriptedServer server;
  server.never_acknowledge = true;
  const auto client = ClientOf(server.address());
  const auto stream = client->OpenUpsertStream({.in_flight_max = 2});
  EXPECT_TRUE(stream->Send({}, 0).ok());
}

TEST(Vectors, EveryEncodingReadsBack) {
  const std::vector<float> values = {1.5f, -2.0f, 0.25f};
  v1::Vector vector;
  SetVector(values.data(), 3, &vector);
  EXPECT_EQ(VectorOf(vector).value(), values);
  for (const float value : values) vector.mutable_floats()->add_values(value);
  EXPECT_EQ(VectorOf(vector).value(), values);
  vector.set_f16_le(std::string("\x00\x3e\x00\xc0\x00\x34", 6));
  EXPECT_EQ(VectorOf(vector).value(), values);
  vector.set_f16_le("abc");
  EXPECT_EQ(VectorOf(vector).status().code(), absl::StatusCode::kInvalidArgument);
  vector.set_f32_le("abc");
  EXPECT_THAT(MessageOf(VectorOf(vector).status()), HasSubstr("3 bytes"));
  EXPECT_EQ(VectorOf({}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lightcone::client
