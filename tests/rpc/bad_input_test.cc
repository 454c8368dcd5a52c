// Every kind of bad input, on the wire, against the real engine: the code and the text that a client sees.
#include <cmath>
#include <limits>
#include <utility>

#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

class BadInput : public WireTest {
 protected:
  void SetUp() override {
    config_.engine.limits.batch_items_max = 5;
    config_.engine.limits.payload_bytes_max = 64;
    config_.engine.limits.id_bytes_max = 16;
    config_.engine.limits.queries_max = 3;
    config_.engine.limits.k_max = 100;
    Serve();
    MakeGallery("gallery");
  }

  v1::UpsertRequest One(const std::vector<float>& values) {
    v1::UpsertRequest request;
    request.set_collection("gallery");
    v1::Item* item = request.add_items();
    item->mutable_id()->set_name("a");
    for (const float value : values) item->mutable_vector()->mutable_floats()->add_values(value);
    return request;
  }

  // The error of the only query.
  v1::PartError QueryError(const v1::SearchRequest& request) {
    v1::SearchResponse response;
    const grpc::Status status = Search(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.results_size() == 1 ? response.results(0).error() : v1::PartError();
  }
};

TEST_F(BadInput, WrongDimensionIsRefusedByName) {
  EXPECT_THAT(Upsert(One({1, 2, 3})),
              Fails(StatusCode::INVALID_ARGUMENT, "'items[0].vector' is a vector of 3 numbers; allowed: exactly 4"));
  const v1::PartError error = QueryError(SearchFor("gallery", {1, 2, 3}));
  EXPECT_EQ(error.code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(error.message(), HasSubstr("'queries[0].vector' is a vector of 3 numbers; allowed: exactly 4"));
}

TEST_F(BadInput, NanAndInfinityAreRefusedWithTheirPosition) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Upsert(One({1, 2, nan, 4})),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].vector[2]' is nan; allowed: a finite number"));
  EXPECT_THAT(Upsert(One({1, INFINITY, 3, 4})),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].vector[1]' is inf; allowed: a finite number"));
  EXPECT_THAT(Upsert(One({1, 2, 3, -INFINITY})),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].vector[3]' is -inf; allowed: a finite number"));
  for (const auto& [value, name] : {std::pair(nan, "nan"), std::pair(INFINITY, "inf"), std::pair(-INFINITY, "-inf")}) {
    const v1::PartError error = QueryError(SearchFor("gallery", {value, 0, 0, 0}));
    EXPECT_EQ(error.code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(error.message(), HasSubstr(std::string("field 'queries[0].vector[0]' is ") + name));
    EXPECT_THAT(error.message(), HasSubstr("allowed: a finite number"));
  }
}

TEST_F(BadInput, AZeroVectorIsRefusedInACosineCollection) {
  MakeGallery("cosine", v1::GEOMETRY_COSINE);
  v1::UpsertRequest request = One({0, 0, 0, 0});
  request.set_collection("cosine");
  const std::string allowed = "is 0; allowed: at least 1e-18 under the cosine metric";
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'norm of items[0].vector' " + allowed));
  const v1::PartError error = QueryError(SearchFor("cosine", {0, 0, 0, 0}));
  EXPECT_EQ(error.code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(error.message(), HasSubstr("field 'norm of queries[0].vector' " + allowed));
}

TEST_F(BadInput, UnknownNamesListWhatThereIs) {
  v1::UpsertRequest request = One({1, 2, 3, 4});
  request.set_collection("foo");
  EXPECT_THAT(Upsert(request), Fails(StatusCode::NOT_FOUND, "no collection 'foo'"));
  EXPECT_THAT(Upsert(request).error_message(), testing::Not(HasSubstr("gallery"))) << "others' names are not told";
  request.set_collection("gallery");
  request.set_generation(9);
  EXPECT_THAT(Upsert(request), Fails(StatusCode::NOT_FOUND, "no generation 9 in collection 'gallery'; there are: 1"));
  v1::SearchResponse response;
  EXPECT_THAT(Search(SearchFor("foo", {1, 2, 3, 4}), &response), Fails(StatusCode::NOT_FOUND, "no collection 'foo'"));
  v1::SearchRequest of_nine = SearchFor("gallery", {1, 2, 3, 4});
  of_nine.set_generation(9);
  EXPECT_THAT(Search(of_nine, &response),
              Fails(StatusCode::NOT_FOUND, "no generation 9 in collection 'gallery'; there are: 1"));
  EXPECT_THAT(Activate("gallery", 9, "activate-nine"),
              Fails(StatusCode::NOT_FOUND, "no generation 9 in collection 'gallery'; there are: 1"));
  v1::SearchRequest by_item;
  by_item.set_collection("gallery");
  by_item.set_k(1);
  by_item.add_queries()->mutable_item()->set_name("nobody");
  const v1::PartError error = QueryError(by_item);
  EXPECT_EQ(error.code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(error.message(), testing::AllOf(HasSubstr("queries[0].item"), HasSubstr("nobody")));
}

TEST_F(BadInput, ATargetOfRecallIsAShareAndComesAlone) {
  v1::SearchRequest request = SearchFor("gallery", {1, 2, 3, 4});
  v1::SearchResponse response;
  for (const auto& [target, name] : {std::pair(0.0, "0"), {-0.5, "-0.5"}, {1.5, "1.5"}, {std::nan(""), "nan"}}) {
    request.set_target_recall(target);
    EXPECT_THAT(Search(request, &response),
                Fails(StatusCode::INVALID_ARGUMENT,
                      std::string("field 'target_recall' is ") + name + "; allowed: above 0, up to 1"));
  }
  request.set_target_recall(0.9);
  EXPECT_TRUE(Search(request, &response).ok());
  request.set_ef(50);
  EXPECT_THAT(Search(request, &response),
              Fails(StatusCode::INVALID_ARGUMENT, "'target_recall' is 0.9; allowed: left out where 'ef' is given"));
  request.set_ef(0);
  request.set_exact(true);
  EXPECT_THAT(Search(request, &response),
              Fails(StatusCode::INVALID_ARGUMENT, "'target_recall' is 0.9; allowed: left out where 'exact' is"));
}

TEST_F(BadInput, EmptyAndOversizedBatchesAreRefused) {
  v1::UpsertRequest request;
  request.set_collection("gallery");
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'items' is empty; allowed: 1 .. 5 of them"));
  EXPECT_THAT(Upsert(Batch("gallery", {"1", "2", "3", "4", "5", "6"})),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items' is 6 long; allowed: 1 .. 5 of them"));
  v1::SearchRequest search = SearchFor("gallery", {1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) *search.add_queries() = search.queries(0);
  v1::SearchResponse response;
  EXPECT_THAT(Search(search, &response),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'queries' is 4 long; allowed: 1 .. 3 of them"));
  v1::GetRequest get;
  v1::DeleteRequest erase;
  get.set_collection("gallery");
  erase.set_collection("gallery");
  for (uint64_t id = 0; id < 6; ++id) {
    get.add_ids()->set_number(id);
    erase.add_ids()->set_number(id);
  }
  grpc::ClientContext get_context, erase_context;
  v1::GetResponse got;
  v1::DeleteResponse erased;
  const std::string six = "field 'ids' is 6 long; allowed: 1 .. 5 of them";
  EXPECT_THAT(retrieval_->Get(&get_context, get, &got), Fails(StatusCode::INVALID_ARGUMENT, six));
  EXPECT_THAT(retrieval_->Delete(&erase_context, erase, &erased), Fails(StatusCode::INVALID_ARGUMENT, six));
}

TEST_F(BadInput, IdsAndPayloadsHaveLimitsAndForms) {
  v1::UpsertRequest request = One({1, 2, 3, 4});
  request.mutable_items(0)->mutable_id()->set_name(std::string(17, 'x'));
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT,
                                     "field 'items[0].id' is 17 bytes long; allowed: 1 .. 16 bytes of UTF-8"));
  request.mutable_items(0)->mutable_id()->set_name("");
  EXPECT_THAT(Upsert(request),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].id' is empty; allowed: 1 .. 16 bytes of UTF-8"));
  request.mutable_items(0)->clear_id();
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].id' is not set"));
  request.mutable_items(0)->mutable_id()->set_number(7);
  request.mutable_items(0)->set_payload_json("{\"text\":\"" + std::string(64, 'x') + "\"}");
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT,
                                     "field 'items[0].payload_json' is 75 bytes long; allowed: at most 64"));
  request.mutable_items(0)->set_payload_json("{\"text\":");
  EXPECT_THAT(Upsert(request),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].payload_json' is malformed JSON at byte"));
  request.mutable_items(0)->set_payload_json("\xef\xbb\xbf{}");
  EXPECT_THAT(Upsert(request),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].payload_json' is a text that begins with U+FEFF"));
  request.mutable_items(0)->set_payload_json("[1]");
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT,
                                     "field 'items[0].payload_json' is not an object; allowed: a JSON object"));
}

TEST_F(BadInput, KOfZeroAndAboveTheLimitAreRefusedWithTheRange) {
  v1::SearchResponse response;
  EXPECT_THAT(Search(SearchFor("gallery", {1, 2, 3, 4}, 0), &response),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'k' is 0; allowed: 1 .. 100"));
  EXPECT_THAT(Search(SearchFor("gallery", {1, 2, 3, 4}, 101), &response),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'k' is 101; allowed: 1 .. 100"));
}

TEST_F(BadInput, AnIdAskedForTwiceIsRefused) {
  grpc::ClientContext context;
  v1::GetRequest request;
  request.set_collection("gallery");
  for (const uint64_t id : {7, 8, 7}) request.add_ids()->set_number(id);
  v1::GetResponse response;
  EXPECT_THAT(retrieval_->Get(&context, request, &response),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'ids[2]' is 7, for the second time; allowed: each id once"));
}

TEST_F(BadInput, FiltersThatMeanNothingNameTheirNode) {
  v1::SearchRequest request = SearchFor("gallery", {1, 2, 3, 4});
  v1::SearchResponse response;
  request.mutable_filter();
  EXPECT_THAT(Search(request, &response), Fails(StatusCode::INVALID_ARGUMENT, "field 'filter' is not set"));
  request.mutable_filter()->mutable_and_()->add_of()->mutable_equals()->set_field("a");
  EXPECT_THAT(Search(request, &response),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'filter.and[0].equals.value' is not set"));
  request.mutable_filter()->mutable_range()->set_field("a");
  EXPECT_THAT(Search(request, &response),
              Fails(StatusCode::INVALID_ARGUMENT,
                    "field 'filter.range' is without a bound; allowed: at least one of greater, greater_equal"));
}

TEST_F(BadInput, UnknownEnumValuesAreRefusedWithTheirNames) {
  v1::UpsertRequest request = One({1, 2, 3, 4});
  request.set_durability(static_cast<v1::Durability>(9));
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'durability' is 9"));
  EXPECT_THAT(Create("odd", static_cast<v1::Geometry>(77)), Fails(StatusCode::INVALID_ARGUMENT, "GEOMETRY_LORENTZ"));
  EXPECT_THAT(Create("unset", v1::GEOMETRY_UNSPECIFIED), Fails(StatusCode::INVALID_ARGUMENT, "field 'geometry' is 0"));
}

TEST_F(BadInput, BytesThatAreNoWholeVectorNameTheirField) {
  v1::UpsertRequest request = One({});
  request.mutable_items(0)->mutable_vector()->set_f32_le("123");
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].vector.f32_le' is 3 bytes long"));
  request.mutable_items(0)->mutable_vector()->set_f16_le("123");
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].vector.f16_le' is 3 bytes long"));
  request.mutable_items(0)->clear_vector();
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'items[0].content' is not set"));
}

TEST_F(BadInput, ManifestsOfAnotherSpaceAreRefused) {
  EXPECT_THAT(Register("gallery", "{", "r-json"), Fails(StatusCode::INVALID_ARGUMENT, "malformed JSON"));
  EXPECT_THAT(Register("gallery", R"({"dimension":5})", "r-dimension", 1),
              Fails(StatusCode::FAILED_PRECONDITION, "field 'manifest.dimension' is 5; allowed: 4"));
  MakeGallery("lorentz", v1::GEOMETRY_LORENTZ);
  EXPECT_THAT(Register("lorentz", R"({"dimension":4,"curvature":0.5,"clip_radius":1.0})", "r-curvature"),
              Fails(StatusCode::FAILED_PRECONDITION, "field 'manifest.curvature' is 0.5; allowed: 1"));
}

TEST_F(BadInput, ABadQueryDoesNotLoseTheOthers) {
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b"})).ok());
  v1::SearchRequest request = SearchFor("gallery", {0, 1, 2, 3}, 1);
  request.add_queries();                                      // no content
  request.add_queries()->mutable_vector()->set_f32_le("xx");  // no floats
  v1::SearchResponse response;
  ASSERT_TRUE(Search(request, &response).ok());
  ASSERT_EQ(response.results_size(), 3);
  ASSERT_EQ(response.results(0).hits_size(), 1);
  EXPECT_EQ(response.results(0).hits(0).id().name(), "a");
  EXPECT_EQ(response.results(1).error().code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(response.results(1).error().violation().field(), "queries[1].content");
  EXPECT_THAT(response.results(2).error().message(), HasSubstr("queries[2].vector.f32_le"));
}

TEST_F(BadInput, TheServerGoesOnServingAndNothingOfABadBatchIsSeen) {
  v1::UpsertRequest request = Batch("gallery", {"good", "bad"});
  request.mutable_items(1)->set_payload_json("nonsense");
  EXPECT_EQ(Upsert(request).error_code(), StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  v1::CountRequest count;
  count.set_collection("gallery");
  v1::CountResponse counted;
  ASSERT_TRUE(retrieval_->Count(&context, count, &counted).ok());
  EXPECT_EQ(counted.count(), 0u);
}

TEST_F(BadInput, ErrorDetailsTravelInTheStandardTrailer) {
  v1::SearchResponse response;
  grpc::ClientContext context;
  const grpc::Status status = retrieval_->Search(&context, SearchFor("gallery", {1, 2, 3, 4}, 0), &response);
  EXPECT_THAT(status.error_details(), HasSubstr("type.googleapis.com/google.rpc.ErrorInfo"));
  EXPECT_THAT(status.error_details(), HasSubstr("type.googleapis.com/lightcone.v1.FieldViolation"));
  EXPECT_THAT(status.error_details(), HasSubstr("lightcone"));
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-status-details-bin"), 1u);
}

class SmallAnswers : public WireTest {
 protected:
  void SetUp() override {
    config_.engine.limits.answer_bytes_max = 2'000;
    Serve();
    MakeGallery("gallery");
    v1::UpsertRequest batch = Batch("gallery", {"a", "b", "c"});
    for (v1::Item& item : *batch.mutable_items()) item.set_payload_json("{\"t\":\"" + std::string(800, 'x') + "\"}");
    ASSERT_TRUE(Upsert(batch).ok());
  }
};

TEST_F(SmallAnswers, AnAnswerAboveItsLimitIsRefusedByName) {
  const std::string text = "field 'limits.answer_bytes_max' is 2000, and the answer would take about 2";
  v1::SearchRequest search = SearchFor("gallery", {0, 1, 2, 3}, 3);
  search.set_with_payload(true);
  v1::SearchResponse found;
  EXPECT_THAT(Search(search, &found), Fails(StatusCode::RESOURCE_EXHAUSTED, text));
  search.set_with_payload(false);
  EXPECT_TRUE(Search(search, &found).ok());
  EXPECT_EQ(found.results(0).hits_size(), 3);
  v1::GetRequest get;
  get.set_collection("gallery");
  for (const char* name : {"a", "b", "c"}) get.add_ids()->set_name(name);
  v1::GetResponse got;
  grpc::ClientContext context;
  EXPECT_THAT(retrieval_->Get(&context, get, &got), Fails(StatusCode::RESOURCE_EXHAUSTED, text));
  get.mutable_ids()->RemoveLast();
  grpc::ClientContext again;
  EXPECT_TRUE(retrieval_->Get(&again, get, &got).ok());
  EXPECT_EQ(got.items_size(), 2);
}

class SmallPages : public WireTest {
 protected:
  void SetUp() override {
    config_.engine.limits.page_items_max = 2;
    Serve();
    MakeGallery("gallery");
    ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c"})).ok());
  }
};

TEST_F(SmallPages, TheDefaultPageIsNoLargerThanTheLargest) {
  v1::ScrollRequest request;
  request.set_collection("gallery");
  grpc::ClientContext context;
  auto reader = retrieval_->Scroll(&context, request);
  v1::ScrollResponse page;
  int items = 0;
  for (; reader->Read(&page); items += page.items_size()) EXPECT_LE(page.items_size(), 2);
  const grpc::Status ended = reader->Finish();
  EXPECT_TRUE(ended.ok()) << ended.error_message();
  EXPECT_EQ(items, 3);
  request.set_page_size(3);
  grpc::ClientContext again;
  reader = retrieval_->Scroll(&again, request);
  EXPECT_FALSE(reader->Read(&page));
  EXPECT_THAT(reader->Finish(),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'page_size' is 3; allowed: 0 (the default) .. 2"));
}

TEST_F(BadInput, APortInUseAndADataFolderInUseAreNamed) {
  ServerConfig second = config_;
  second.http_listen = "";
  second.listen = server_->bound().grpc;
  const absl::Status port = RunningServer::Start(second).status();
  EXPECT_EQ(port.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(port.message()), HasSubstr(server_->bound().grpc));
  EXPECT_THAT(std::string(port.message()), HasSubstr("is another server running?"));
  second.listen = "127.0.0.1:0";
  const absl::Status folder = RunningServer::Start(second).status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(folder.message()), HasSubstr(config_.engine.data_folder));
  EXPECT_THAT(std::string(folder.message()), HasSubstr("is in use"));
  second.index.merge_rows_max = 5;
  const absl::Status merge = RunningServer::Start(second).status();
  EXPECT_EQ(merge.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(merge.message()),
              HasSubstr("index: field 'merge_rows_max' is 5; allowed: growing_rows_max (20000) .. 1000000000"));
  second.index = config_.index;
  second.listen = "nonsense";
  EXPECT_EQ(RunningServer::Start(second).status().code(), absl::StatusCode::kInvalidArgument);
  second.listen = "127.0.0.1:0";
  second.http_listen = server_->bound().http;
  const absl::Status http = RunningServer::Start(second).status();
  EXPECT_EQ(http.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(http.message()), HasSubstr("'" + server_->bound().http + "' (http)"));
  EXPECT_THAT(std::string(http.message()), HasSubstr("is another server running?"));
}

}  // namespace
}  // namespace lightcone::server
