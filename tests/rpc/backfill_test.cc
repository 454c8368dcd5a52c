// The backfill over the wire against the real engine.
#include "base/status.h"
#include "models/failure_head_file.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

class WireBackfill : public WireTest {
 protected:
  // Three items by generation 1; generation 2 is active.
  void SetUp() override {
    Serve();
    MakeGallery("gallery");
    ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c"})).ok());
    ASSERT_TRUE(Register("gallery", R"({"dimension":4})", "second", /*parent=*/1).ok());
    ASSERT_TRUE(Activate("gallery", 2, "activate-2").ok());
  }

  template <typename Request, typename Response>
  using Method = grpc::Status (v1::Backfill::Stub::*)(grpc::ClientContext*, const Request&, Response*);
  template <typename Request, typename Response>
  grpc::Status Call(Method<Request, Response> method, const Request& request, Response* response) {
    grpc::ClientContext context;
    return (backfill_.get()->*method)(&context, request, response);
  }

  v1::StatusResponse Settled() {
    v1::StatusRequest request;
    request.set_collection("gallery");
    v1::StatusResponse response;
    do {
      EXPECT_TRUE(Call(&v1::Backfill::Stub::Status, request, &response).ok());
    } while (response.state() == v1::BACKFILL_STATE_ORDERING);
    return response;
  }
  grpc::Status Start(const std::string& head = "") {
    v1::BackfillStartRequest request;
    request.set_collection("gallery");
    request.set_failure_head(head);
    v1::BackfillStartResponse response;
    return Call(&v1::Backfill::Stub::Start, request, &response);
  }
  grpc::Status Lease(uint32_t items, v1::LeaseResponse* response,
                     std::optional<std::pair<int64_t, int32_t>> timeout = {}) {
    v1::LeaseRequest request;
    request.set_collection("gallery");
    request.set_items_max(items);
    if (timeout) {
      request.mutable_timeout()->set_seconds(timeout->first);
      request.mutable_timeout()->set_nanos(timeout->second);
    }
    response->Clear();
    return Call(&v1::Backfill::Stub::Lease, request, response);
  }
};

TEST_F(WireBackfill, ItemsAreLeasedEmbeddedAndDone) {
  EXPECT_EQ(Settled().state(), v1::BACKFILL_STATE_UNSPECIFIED);
  v1::LeaseResponse lease;
  EXPECT_THAT(Lease(1, &lease), Fails(StatusCode::FAILED_PRECONDITION, "start one"));
  ASSERT_TRUE(Start().ok());
  const v1::StatusResponse before = Settled();
  EXPECT_EQ(before.state(), v1::BACKFILL_STATE_RUNNING);
  EXPECT_EQ(before.generation(), 2u);
  EXPECT_EQ(before.items_done(), 0u);
  EXPECT_EQ(before.items_total(), 3u);
  EXPECT_TRUE(before.has_started());
  ASSERT_TRUE(Lease(10, &lease).ok());
  ASSERT_EQ(lease.items_size(), 3);
  EXPECT_FALSE(lease.token().empty());
  EXPECT_TRUE(lease.has_expires());
  v1::UpsertRequest batch;
  batch.set_collection("gallery");
  batch.set_generation(lease.generation());
  batch.set_same_content(true);
  for (const v1::LeasedItem& leased : lease.items()) {
    EXPECT_EQ(leased.generation(), 1u);
    v1::Item* item = batch.add_items();
    *item->mutable_id() = leased.id();
    item->set_expected_sequence(leased.sequence());
    for (const float x : {1.0f, 2.0f, 3.0f, 4.0f}) item->mutable_vector()->mutable_floats()->add_values(x);
  }
  batch.mutable_items(1)->set_expected_sequence(99);
  grpc::ClientContext context;
  v1::UpsertResponse written;
  ASSERT_TRUE(retrieval_->Upsert(&context, batch, &written).ok());
  EXPECT_EQ(written.items(), 2u);
  EXPECT_THAT(written.outdated(), ElementsAre(1u));
  const v1::StatusResponse after = Settled();
  EXPECT_EQ(after.items_done(), 2u);
  EXPECT_EQ(after.items_leased(), 3u);
}

TEST_F(WireBackfill, APauseEndsLeasing) {
  ASSERT_TRUE(Start().ok());
  Settled();
  v1::PauseRequest request;
  request.set_collection("gallery");
  v1::PauseResponse response;
  ASSERT_TRUE(Call(&v1::Backfill::Stub::Pause, request, &response).ok());
  EXPECT_EQ(response.status().state(), v1::BACKFILL_STATE_PAUSED);
  v1::LeaseResponse lease;
  ASSERT_TRUE(Lease(10, &lease).ok());
  EXPECT_THAT(lease.items(), IsEmpty());
  EXPECT_EQ(lease.state(), v1::BACKFILL_STATE_PAUSED);
}

TEST_F(WireBackfill, AWatchTellsUntilTheEndAndAtOnceWhereThereIsNone) {
  v1::BackfillWatchRequest request;
  request.set_collection("gallery");
  v1::BackfillWatchResponse news;
  {
    grpc::ClientContext context;
    auto stream = backfill_->Watch(&context, request);
    ASSERT_TRUE(stream->Read(&news));
    EXPECT_EQ(news.status().state(), v1::BACKFILL_STATE_UNSPECIFIED);
    EXPECT_FALSE(stream->Read(&news));
    EXPECT_TRUE(stream->Finish().ok());
  }
  ASSERT_TRUE(Start().ok());
  {
    grpc::ClientContext context;
    auto stream = backfill_->Watch(&context, request);
    ASSERT_TRUE(stream->Read(&news));
    EXPECT_LT(news.items_done(), news.items_total());
    context.TryCancel();
    while (stream->Read(&news)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  grpc::ClientContext context;
  request.set_collection("nobody");
  EXPECT_THAT(backfill_->Watch(&context, request)->Finish(), Fails(StatusCode::NOT_FOUND, "nobody"));
}

TEST_F(WireBackfill, WhatIsWrongIsNamed) {
  EXPECT_THAT(Start("no head"), Fails(StatusCode::INVALID_ARGUMENT, "failure_head"));
  ASSERT_TRUE(Start().ok());
  Settled();
  v1::LeaseResponse lease;
  EXPECT_THAT(Lease(0, &lease), Fails(StatusCode::INVALID_ARGUMENT, "items_max"));
  EXPECT_THAT(Lease(1, &lease, std::pair(-1, 0)), Fails(StatusCode::INVALID_ARGUMENT, "timeout"));
  EXPECT_THAT(Lease(1, &lease, std::pair(90'000, 0)), Fails(StatusCode::INVALID_ARGUMENT, "timeout"));
  EXPECT_THAT(Lease(1, &lease, std::pair(1, -5)), Fails(StatusCode::INVALID_ARGUMENT, "timeout.nanos"));
  EXPECT_THAT(Lease(1, &lease, std::pair(INT64_MAX, 999'999'999)), Fails(StatusCode::INVALID_ARGUMENT, "timeout"));
  EXPECT_THAT(Lease(1, &lease, std::pair(INT64_MIN, 0)), Fails(StatusCode::INVALID_ARGUMENT, "timeout"));
}

}  // namespace
}  // namespace lightcone::server
