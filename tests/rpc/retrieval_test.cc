// The whole wire against the real engine.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "tests/base/float_to_half.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;

class Wire : public WireTest {
 protected:
  void SetUp() override {
    Serve();
    MakeGallery("gallery");
  }
};

TEST_F(Wire, VectorsTravelInThreeEncodings) {
  const std::vector<float> values = {0.5f, -1.25f, 2.0f, 0.0f};  // exact in half precision
  v1::UpsertRequest request;
  request.set_collection("gallery");
  for (const char* name : {"floats", "f32", "f16"}) request.add_items()->mutable_id()->set_name(name);
  std::string halves;
  for (const float value : values) {
    request.mutable_items(0)->mutable_vector()->mutable_floats()->add_values(value);
    const uint16_t half = FloatToHalf(value);
    halves.append(reinterpret_cast<const char*>(&half), 2);
  }
  request.mutable_items(1)->mutable_vector()->set_f32_le(values.data(), 16);
  request.mutable_items(2)->mutable_vector()->set_f16_le(halves);
  v1::UpsertResponse written;
  ASSERT_TRUE(Upsert(request, &written).ok());
  EXPECT_EQ(written.items(), 3u);
  EXPECT_EQ(written.generation(), 1u);
  EXPECT_EQ(written.durability(), v1::DURABILITY_DURABLE);

  v1::SearchRequest search = SearchFor("gallery", values);
  search.set_with_vector(true);
  search.set_wait_for_sequence(written.sequence());
  v1::SearchResponse response;
  ASSERT_TRUE(Search(search, &response).ok());
  ASSERT_EQ(response.results(0).hits_size(), 3);
  for (const v1::Hit& hit : response.results(0).hits()) {
    EXPECT_EQ(hit.distance(), 0.0);
    EXPECT_EQ(hit.vector().f32_le(), request.items(1).vector().f32_le());
  }
}

TEST_F(Wire, DurabilityIsRepeatedAndDeletesCount) {
  v1::UpsertRequest request = Batch("gallery", {"a", "b"});
  request.set_durability(v1::DURABILITY_PROCESS);
  v1::UpsertResponse written;
  ASSERT_TRUE(Upsert(request, &written).ok());
  EXPECT_EQ(written.durability(), v1::DURABILITY_PROCESS);
  grpc::ClientContext context;
  v1::DeleteRequest gone;
  gone.set_collection("gallery");
  gone.add_ids()->set_name("a");
  gone.add_ids()->set_name("never");
  v1::DeleteResponse deleted;
  ASSERT_TRUE(retrieval_->Delete(&context, gone, &deleted).ok());
  EXPECT_EQ(deleted.deleted(), 1u);
  EXPECT_EQ(deleted.durability(), v1::DURABILITY_DURABLE);
  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("gallery");
  get.add_ids()->set_name("a");
  get.add_ids()->set_name("b");
  get.set_with_vector(true);
  v1::GetResponse got;
  ASSERT_TRUE(retrieval_->Get(&get_context, get, &got).ok());
  ASSERT_EQ(got.items_size(), 1);
  EXPECT_EQ(got.items(0).id().name(), "b");
  EXPECT_EQ(got.items(0).vector().f32_le().size(), 16u);
  ASSERT_EQ(got.missing_size(), 1);
  EXPECT_EQ(got.missing(0).name(), "a");
}

TEST_F(Wire, FiltersOfTheWireReachTheEngine) {
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c", "d"})).ok());
  v1::SearchRequest request = SearchFor("gallery", {0, 1, 2, 3}, 10);
  v1::FilterRange* range = request.mutable_filter()->mutable_and_()->add_of()->mutable_range();
  range->set_field("rank");
  range->mutable_greater_equal()->set_integer(2);
  request.set_with_payload(true);
  v1::SearchResponse response;
  ASSERT_TRUE(Search(request, &response).ok());
  ASSERT_EQ(response.results(0).hits_size(), 2);
  EXPECT_EQ(response.results(0).hits(0).id().name(), "c");
  EXPECT_EQ(response.results(0).hits(0).payload_json(), "{\"rank\":2}");
  request.mutable_filter()->mutable_not_()->mutable_exists()->set_field("rank");
  ASSERT_TRUE(Search(request, &response).ok());
  EXPECT_EQ(response.results(0).hits_size(), 0);
}

TEST_F(Wire, QueriesCarryVectorsOfOlderGenerations) {
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c"})).ok());
  ASSERT_TRUE(Register("gallery", R"({"dimension":4})", "gallery-register-2", /*parent=*/1).ok());
  v1::SearchRequest search = SearchFor("gallery", {0, 1, 2, 3});
  search.set_generation(2);
  search.set_profile(true);
  v1::GenerationVector* const older = search.mutable_queries(0)->add_older_vectors();
  older->set_generation(1);
  for (const float value : {2.0f, 1.0f, 2.0f, 3.0f}) older->mutable_vector()->mutable_floats()->add_values(value);
  v1::SearchResponse both;
  ASSERT_TRUE(Search(search, &both).ok());
  ASSERT_EQ(both.results(0).hits_size(), 3) << both.results(0).error().message();
  EXPECT_EQ(both.results(0).hits(0).id().name(), "a") << "three quarters of the weight are the new query's";
  ASSERT_EQ(both.profile().legs_size(), 1);
  EXPECT_TRUE(both.profile().legs(0).fused());
  EXPECT_EQ(both.profile().legs(0).older_weight(), 0.25);

  older->set_generation(2);
  v1::SearchResponse wrong;
  ASSERT_TRUE(Search(search, &wrong).ok());
  EXPECT_THAT(wrong.results(0).error().message(), testing::HasSubstr("queries[0].older_vectors[0].generation"));
  older->set_generation(1);
  older->mutable_vector()->set_f32_le("12345");
  ASSERT_TRUE(Search(search, &wrong).ok());
  EXPECT_THAT(wrong.results(0).error().message(), testing::HasSubstr("queries[0].older_vectors[0].vector"));
  search.mutable_queries(0)->mutable_item()->set_name("a");
  ASSERT_TRUE(Search(search, &wrong).ok());
  EXPECT_THAT(wrong.results(0).error().message(), testing::HasSubstr("queries[0].older_vectors"));
}

TEST_F(Wire, PayloadsChangeAndAreCountedGroupedAndOrdered) {
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c", "d"})).ok());
  const auto call = [this](auto method, const auto& request, auto* response) {
    grpc::ClientContext context;
    return ((*retrieval_).*method)(&context, request, response);
  };
  using Stub = v1::Retrieval::StubInterface;
  v1::ChangePayloadRequest change;
  v1::ChangePayloadResponse changed;
  change.set_collection("gallery");
  change.add_ids()->set_name("a");
  change.add_ids()->set_name("never");
  EXPECT_THAT(call(&Stub::ChangePayload, change, &changed).error_message(), testing::HasSubstr("'change' is 0"));
  change.set_change(v1::PAYLOAD_CHANGE_SET);
  change.set_payload_json(R"({"rank":1,"at":{"lon":10,"lat":50}})");
  ASSERT_TRUE(call(&Stub::ChangePayload, change, &changed).ok());
  EXPECT_EQ(changed.changed(), 1u);
  ASSERT_EQ(changed.missing_size(), 1);
  EXPECT_EQ(changed.missing(0).name(), "never");
  EXPECT_EQ(changed.durability(), v1::DURABILITY_DURABLE);

  v1::FacetRequest facet;
  v1::FacetResponse facets;
  facet.set_collection("gallery");
  facet.set_field("rank");
  ASSERT_TRUE(call(&Stub::Facet, facet, &facets).ok());
  EXPECT_EQ(facets.distinct(), 3u);
  EXPECT_EQ(facets.values(0).value().integer(), 1);
  EXPECT_EQ(facets.values(0).count(), 2u);

  v1::SearchRequest search = SearchFor("gallery", {0, 1, 2, 3}, 0);
  search.mutable_group_by()->set_field("rank");
  v1::SearchResponse response;
  ASSERT_TRUE(Search(search, &response).ok());
  EXPECT_EQ(response.results(0).hits_size(), 0);
  EXPECT_EQ(response.results(0).groups_size(), 3);
  search.mutable_filter()->mutable_geo_box()->set_field("at");
  search.mutable_filter()->mutable_geo_box()->mutable_top_left()->set_lat(60);
  const grpc::Status open = Search(search, &response);
  EXPECT_THAT(open.error_message(), testing::HasSubstr("filter.geo_box.bottom_right"));
  search.mutable_filter()->mutable_geo_box()->mutable_bottom_right()->set_lon(20);
  ASSERT_TRUE(Search(search, &response).ok());
  ASSERT_EQ(response.results(0).groups_size(), 1);
  EXPECT_EQ(response.results(0).groups(0).hits(0).id().name(), "a");

  v1::ScrollRequest scroll;
  scroll.set_collection("gallery");
  scroll.mutable_order_by()->set_field("rank");
  grpc::ClientContext context;
  const auto reader = retrieval_->Scroll(&context, scroll);
  v1::ScrollResponse page;
  while (reader->Read(&page)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("'rank' has no payload index"));
}

TEST_F(Wire, PayloadIndexesAreDeclaredAndTheProfileNamesThem) {
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c", "d"})).ok());
  v1::SearchRequest request = SearchFor("gallery", {0, 1, 2, 3}, 10);
  request.mutable_filter()->mutable_equals()->set_field("rank");
  request.mutable_filter()->mutable_equals()->mutable_value()->set_integer(2);
  request.set_profile(true);
  v1::SearchResponse response;
  ASSERT_TRUE(Search(request, &response).ok());
  EXPECT_THAT(response.profile().unindexed_fields(), testing::ElementsAre("rank"));
  EXPECT_GT(response.profile().payloads_read(), 0u);

  v1::IndexPayloadRequest change;
  change.set_collection("gallery");
  change.set_wait(true);
  v1::PayloadField* const field = change.add_add();
  field->set_path("rank");
  v1::IndexPayloadResponse changed;
  {
    grpc::ClientContext context;
    const grpc::Status refused = collections_->IndexPayload(&context, change, &changed);
    EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(refused.error_message(), testing::HasSubstr("add[0].type"));
  }
  field->set_type(v1::PAYLOAD_TYPE_INTEGER);
  grpc::ClientContext context;
  const grpc::Status status = collections_->IndexPayload(&context, change, &changed);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(changed.collection().payload_indexes_size(), 1);
  EXPECT_EQ(changed.collection().payload_indexes(0).field().type(), v1::PAYLOAD_TYPE_INTEGER);
  EXPECT_TRUE(changed.collection().payload_indexes(0).ready());
  EXPECT_EQ(changed.collection().payload_indexes(0).items(), 4u);
  ASSERT_TRUE(Search(request, &response).ok());
  ASSERT_EQ(response.results(0).hits_size(), 1);
  EXPECT_THAT(response.profile().indexed_fields(), testing::ElementsAre("rank"));
  EXPECT_EQ(response.profile().payloads_read(), 0u);
  ASSERT_EQ(response.profile().legs_size(), 1);
  EXPECT_EQ(response.profile().legs(0).segments(0).plan(), v1::SEARCH_PLAN_SCAN);
}

TEST_F(Wire, AStreamAnswersEachBatchInOrderGoodOrBad) {
  grpc::ClientContext context;
  auto stream = retrieval_->UpsertStream(&context);
  constexpr int kBatches = 40;
  std::thread writer([&] {
    for (int i = 0; i < kBatches; ++i) {
      v1::UpsertStreamRequest request;
      *request.mutable_batch() = Batch(i % 10 == 7 ? "nowhere" : "gallery", {"item-" + std::to_string(i), "shared"});
      request.set_tag(100 + i);
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  v1::UpsertStreamResponse answer;
  uint64_t last_sequence = 0;
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.tag(), 100u + i);
    if (i % 10 == 7) {
      EXPECT_EQ(answer.error().code(), StatusCode::NOT_FOUND);
    } else {
      ASSERT_TRUE(answer.has_written()) << answer.error().message();
      EXPECT_GT(answer.written().sequence(), last_sequence);
      last_sequence = answer.written().sequence();
    }
  }
  writer.join();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(Wire, AStreamEndsWithAnErrorAtAMessageThatDoesNotParse) {
  const auto message = [](uint64_t tag, const std::string& name) {
    v1::UpsertStreamRequest request;
    *request.mutable_batch() = Batch("gallery", {"item", name});
    request.set_tag(tag);
    std::string bytes = request.SerializeAsString();
    if (const size_t at = bytes.find("bad-name"); at != std::string::npos) bytes[at + 3] = '\xff';
    return bytes;
  };
  const std::string bad_name = message(2, "bad-name"), cut = message(2, "cut").substr(0, 20);
  for (const auto& [second, told] : {std::pair(bad_name, "'batch.items[1].id.name' is no UTF-8: byte 3 is 0xff"),
                                     std::pair(cut, "its bytes are not in the wire format")}) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::CompletionQueue queue;
    const auto stream = stub.PrepareCall(&context, "/lightcone.v1.Retrieval/UpsertStream", &queue);
    const auto done = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    stream->StartCall(nullptr);
    ASSERT_TRUE(done());
    for (const std::string& bytes : {message(1, "first"), second, message(3, "third")}) {
      const grpc::Slice slice(bytes);
      stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      if (!done()) break;  // The stream has ended already.
    }
    grpc::ByteBuffer bytes;
    stream->Read(&bytes, nullptr);
    ASSERT_TRUE(done());
    grpc::ProtoBufferReader reader(&bytes);
    v1::UpsertStreamResponse answer;
    ASSERT_TRUE(answer.ParseFromZeroCopyStream(&reader));
    EXPECT_EQ(answer.tag(), 1u);
    EXPECT_TRUE(answer.has_written());
    grpc::ByteBuffer none;
    stream->Read(&none, nullptr);
    EXPECT_FALSE(done());
    grpc::Status ended;
    stream->Finish(&ended, nullptr);
    ASSERT_TRUE(done());
    EXPECT_THAT(ended, Fails(StatusCode::INVALID_ARGUMENT, "message 2 of the stream"));
    EXPECT_THAT(ended, Fails(StatusCode::INVALID_ARGUMENT, told));
  }
  v1::CountRequest count;
  count.set_collection("gallery");
  v1::CountResponse counted;
  grpc::ClientContext context;
  ASSERT_TRUE(retrieval_->Count(&context, count, &counted).ok());
  EXPECT_EQ(counted.count(), 2u) << "items of the first message";
}

TEST_F(Wire, ScrollPagesResumeAndStopAtTheLimit) {
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back("item-" + std::to_string(100 + i));
  ASSERT_TRUE(Upsert(Batch("gallery", names)).ok());
  v1::ScrollRequest request;
  request.set_collection("gallery");
  request.set_page_size(10);
  request.set_limit(15);
  std::vector<std::string> seen;
  std::string token;
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    request.set_token(token);
    auto reader = retrieval_->Scroll(&context, request);
    v1::ScrollResponse page;
    while (reader->Read(&page)) {
      EXPECT_LE(page.items_size(), 10);
      for (const v1::StoredItem& item : page.items()) seen.push_back(item.id().name());
      token = page.token();
    }
    ASSERT_TRUE(reader->Finish().ok());
    if (round == 0) {
      EXPECT_EQ(seen.size(), 15u);
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, names);
  grpc::ClientContext context;
  request.set_token("not a token");
  v1::ScrollResponse page;
  auto reader = retrieval_->Scroll(&context, request);
  EXPECT_FALSE(reader->Read(&page));
  EXPECT_THAT(reader->Finish(), Fails(StatusCode::INVALID_ARGUMENT, "token"));
}

TEST_F(Wire, AScrollOverAnAliasEndsInTheCollectionInWhichItBegan) {
  MakeGallery("next");
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back("item-" + std::to_string(100 + i));
  // Pages of 200 kB: the transport does not hold all of them, so that later ones are read after the switch.
  v1::UpsertRequest batch = Batch("gallery", names);
  for (v1::Item& item : *batch.mutable_items()) {
    item.set_payload_json("{\"text\":\"" + std::string(100'000, 'x') + "\"}");
  }
  ASSERT_TRUE(Upsert(batch).ok());
  ASSERT_TRUE(Upsert(Batch("next", {"other"})).ok());
  const auto point = [this](const std::string& collection) {
    grpc::ClientContext context;
    v1::SetAliasRequest alias;
    alias.set_alias("live");
    alias.set_collection(collection);
    v1::SetAliasResponse aliased;
    return collections_->SetAlias(&context, alias, &aliased).ok();
  };
  for (const std::string& then : {std::string("next"), std::string()}) {
    ASSERT_TRUE(point("gallery"));
    v1::ScrollRequest request;
    request.set_collection("live");
    request.set_page_size(2);
    grpc::ClientContext context;
    auto reader = retrieval_->Scroll(&context, request);
    v1::ScrollResponse page;
    std::vector<std::string> seen;
    std::string first_token;
    while (reader->Read(&page)) {
      for (const v1::StoredItem& item : page.items()) seen.push_back(item.id().name());
      if (!first_token.empty()) continue;
      first_token = page.token();
      ASSERT_TRUE(point(then));
    }
    const grpc::Status ended = reader->Finish();
    EXPECT_TRUE(ended.ok()) << ended.error_message();
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, names) << "alias then of '" << then << "'";
    if (then.empty()) continue;
    // A later call with the token goes on there, too. Under a collection's own name it is refused.
    grpc::ClientContext again, other;
    request.set_token(first_token);
    reader = retrieval_->Scroll(&again, request);
    size_t left = 0;
    while (reader->Read(&page)) left += static_cast<size_t>(page.items_size());
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(left, names.size() - 2);
    request.set_collection("next");
    reader = retrieval_->Scroll(&other, request);
    EXPECT_FALSE(reader->Read(&page));
    EXPECT_THAT(reader->Finish(), Fails(StatusCode::INVALID_ARGUMENT, "token"));
  }
}

TEST_F(Wire, TheModelOfVectorsIsHeldAgainstTheGenerations) {
  ASSERT_TRUE(Register("gallery", R"({"dimension":4,"model":"new"})", "r2", 1).ok());
  ASSERT_TRUE(Activate("gallery", 2, "a2").ok());
  v1::UpsertRequest batch = Batch("gallery", {"a"});
  batch.set_model("old");
  EXPECT_THAT(Upsert(batch), Fails(StatusCode::FAILED_PRECONDITION, "'old'"));
  batch.set_model("new");
  EXPECT_TRUE(Upsert(batch).ok());
  v1::SearchRequest request = SearchFor("gallery", {0, 1, 2, 3}, 10);
  request.set_model("old");
  v1::SearchResponse response;
  EXPECT_THAT(Search(request, &response), Fails(StatusCode::FAILED_PRECONDITION, "'new'"));
  request.set_model("new");
  EXPECT_TRUE(Search(request, &response).ok());
  // Texts travel, and are refused where no encoder is.
  request.mutable_queries(0)->mutable_input()->set_text("words");
  EXPECT_THAT(Search(request, &response), Fails(StatusCode::FAILED_PRECONDITION, "no encoder"));
}

TEST_F(Wire, ExactlyOneOfTwoRacingActivationsWins) {
  ASSERT_TRUE(Register("gallery", R"({"dimension":4})", "r2", 1).ok());
  ASSERT_TRUE(Register("gallery", R"({"dimension":4})", "r3", 1).ok());
  std::array<grpc::Status, 2> ends;
  std::vector<std::thread> racers;
  for (const uint32_t generation : {2u, 3u}) {
    racers.emplace_back([&, generation] {
      ends[generation - 2] = Activate("gallery", generation, "race-" + std::to_string(generation), /*expect_active=*/1);
    });
  }
  for (std::thread& racer : racers) racer.join();
  ASSERT_NE(ends[0].ok(), ends[1].ok());
  const std::string told = "field 'expect_active' is 1, but the active generation is ";
  EXPECT_THAT(ends[ends[0].ok() ? 1 : 0], Fails(StatusCode::ABORTED, told + (ends[0].ok() ? "2" : "3")));
}

TEST_F(Wire, ARollbackIsAnsweredAndLogged) {
  ASSERT_TRUE(Register("gallery", R"({"dimension":4})", "r2", 1).ok());
  ASSERT_TRUE(Activate("gallery", 2, "a2").ok());
  v1::RollbackRequest request;
  request.set_collection("gallery");
  request.set_request_id("back-1");
  request.set_reason("slower");
  request.set_expect_active(2);
  v1::RollbackResponse response;
  for (int call = 0; call < 2; ++call) {  // the second is the same call again
    grpc::ClientContext context;
    ASSERT_TRUE(generations_->Rollback(&context, request, &response).ok());
    EXPECT_EQ(response.generation().generation(), 1u);
    EXPECT_EQ(response.generation().state(), v1::GENERATION_STATE_ACTIVE);
    EXPECT_EQ(response.previous_generation(), 2u);
  }
  grpc::ClientContext context, again;
  request.set_request_id("back-2");
  request.clear_expect_active();
  EXPECT_THAT(generations_->Rollback(&context, request, &response),
              Fails(StatusCode::FAILED_PRECONDITION, "no generation to roll back to"));
  v1::AuditRequest list;
  list.set_collection("gallery");
  v1::AuditResponse log;
  ASSERT_TRUE(generations_->Audit(&again, list, &log).ok());
  ASSERT_EQ(log.entries_size(), 3);
  EXPECT_EQ(log.entries(0).action(), v1::AUDIT_ACTION_ROLLBACK);
  EXPECT_EQ(log.entries(0).reason(), "slower");
  EXPECT_EQ(log.entries(0).request_id(), "back-1");
  EXPECT_GT(log.entries(0).time().seconds(), 1'700'000'000);
  EXPECT_EQ(log.entries(1).action(), v1::AUDIT_ACTION_ACTIVATE);
  EXPECT_EQ(log.entries(2).previous_generation(), 0u);
}

TEST_F(Wire, CollectionsListInPagesAndAnswerToAliases) {
  for (const char* name : {"b", "a", "c"}) ASSERT_TRUE(Create(name).ok());
  grpc::ClientContext alias_context;
  v1::SetAliasRequest alias;
  alias.set_request_id("alias-1");
  alias.set_alias("live");
  alias.set_collection("gallery");
  v1::SetAliasResponse aliased;
  ASSERT_TRUE(collections_->SetAlias(&alias_context, alias, &aliased).ok());
  EXPECT_TRUE(Upsert(Batch("live", {"x"})).ok());
  std::vector<std::string> names;
  v1::CollectionsListRequest request;
  request.set_page_size(3);
  do {
    grpc::ClientContext context;
    v1::CollectionsListResponse response;
    ASSERT_TRUE(collections_->List(&context, request, &response).ok());
    for (const v1::CollectionInfo& info : response.collections()) names.push_back(info.name());
    request.set_token(response.token());
  } while (!request.token().empty());
  EXPECT_THAT(names, testing::ElementsAre("a", "b", "c", "gallery"));
  grpc::ClientContext drop_context;
  v1::DropRequest drop;
  drop.set_request_id("drop-1");
  drop.set_name("a");
  v1::DropResponse dropped;
  EXPECT_TRUE(collections_->Drop(&drop_context, drop, &dropped).ok());
  grpc::ClientContext context;
  v1::CollectionsGetRequest get;
  get.set_name("a");
  v1::CollectionsGetResponse got;
  EXPECT_THAT(collections_->Get(&context, get, &got), Fails(StatusCode::NOT_FOUND, "no collection"));
}

TEST_F(Wire, RebuildChangesOnlyTheSettingsThatAreGiven) {
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b"})).ok());
  grpc::ClientContext context;
  v1::RebuildRequest request;
  request.set_request_id("rebuild-1");
  request.set_collection("gallery");
  request.mutable_index()->set_hnsw_ef_search(77);
  request.set_wait(true);
  v1::RebuildResponse response;
  const grpc::Status status = collections_->Rebuild(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.collection().index().hnsw_ef_search(), 77u);
  EXPECT_EQ(response.collection().index().kind(), v1::INDEX_KIND_HNSW);
  EXPECT_EQ(response.collection().items(), 2u);
}

// The same request again is the same request, whatever the settings that it left open have become meanwhile.
TEST_F(Wire, ARepeatedRebuildIsRecognisedByWhatItSaid) {
  const auto rebuild = [this](const char* id, uint32_t ef_search, uint32_t m) {
    grpc::ClientContext context;
    v1::RebuildRequest request;
    request.set_request_id(id);
    request.set_collection("gallery");
    request.mutable_index()->set_hnsw_ef_search(ef_search);
    request.mutable_index()->set_hnsw_m(m);
    request.set_wait(true);
    v1::RebuildResponse response;
    const grpc::Status status = collections_->Rebuild(&context, request, &response);
    EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::ALREADY_EXISTS) << status.error_message();
    return status.ok() ? response.collection().index().hnsw_m() : 0;
  };
  const uint32_t before = rebuild("first", 77, 0);
  EXPECT_EQ(rebuild("second", 0, before + 1), before + 1);
  EXPECT_EQ(rebuild("first", 77, 0), before + 1);
  EXPECT_EQ(rebuild("first", 78, 0), 0u);
}

}  // namespace
}  // namespace lightcone::server
