// What applications choose on the wire: conditions on null and numbers of values, chosen fields, offsets, bounds,
// deletions by a filter, and collections that demand generations.
#include <string>
#include <vector>

#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;

class Selection : public WireTest {
 protected:
  void SetUp() override {
    Serve();
    MakeGallery("gallery");
  }

  // Items "0", "1" ... with these payloads, each a step further from the origin.
  void WritePayloads(const std::vector<std::string>& payloads) {
    std::vector<std::string> names;
    for (size_t i = 0; i < payloads.size(); ++i) names.push_back(std::to_string(i));
    v1::UpsertRequest request = Batch("gallery", names);
    for (size_t i = 0; i < payloads.size(); ++i)
      request.mutable_items(static_cast<int>(i))->set_payload_json(payloads[i]);
    ASSERT_TRUE(Upsert(request).ok());
  }

  v1::SearchRequest FromTheOrigin(uint32_t k = 10) {
    v1::SearchRequest request = SearchFor("gallery", {0, 1, 2, 3}, k);
    request.set_exact(true);
    return request;
  }

  // Names of the hits, one after another.
  std::string Found(const v1::SearchRequest& request) {
    v1::SearchResponse response;
    const grpc::Status status = Search(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::string names;
    for (int i = 0; status.ok() && i < response.results(0).hits_size(); ++i) {
      names += response.results(0).hits(i).id().name();
    }
    return names;
  }

  grpc::Status Delete(const v1::DeleteRequest& request, v1::DeleteResponse* response) {
    grpc::ClientContext context;
    return retrieval_->Delete(&context, request, response);
  }
};

TEST_F(Selection, NullAbsentAndNumbersOfValuesAreConditions) {
  WritePayloads({"{}", R"({"a.b":null})", R"({"a.b":[]})", R"({"a.b":[1,2]})", R"({"a":{"b":3}})"});
  const std::string field = R"("a.b")";
  v1::SearchRequest request = FromTheOrigin();
  request.mutable_filter()->mutable_is_null()->set_field(field);
  EXPECT_EQ(Found(request), "1");
  request.mutable_filter()->mutable_is_empty()->set_field(field);
  EXPECT_EQ(Found(request), "0124");
  request.mutable_filter()->mutable_exists()->set_field(field);
  EXPECT_EQ(Found(request), "123");
  v1::FilterValuesCount* count = request.mutable_filter()->mutable_values_count();
  count->set_field(field);
  v1::SearchResponse response;
  EXPECT_THAT(Search(request, &response),
              Fails(StatusCode::INVALID_ARGUMENT, "'filter.values_count' is without a bound"));
  count->set_greater(1);
  EXPECT_EQ(Found(request), "3");
  count->set_greater(UINT64_MAX);
  EXPECT_EQ(Found(request), "");
  count->clear_greater();
  count->set_less(0);
  EXPECT_EQ(Found(request), "");
  count->set_less(2);
  count->set_greater_equal(0);
  EXPECT_EQ(Found(request), "0124");
}

TEST_F(Selection, OffsetsBoundsAndChosenFieldsTravel) {
  WritePayloads({R"({"n":0,"t":"x"})", R"({"n":1})", R"({"n":2})", R"({"n":3})"});
  v1::SearchRequest request = FromTheOrigin(2);
  request.set_offset(1);
  EXPECT_EQ(Found(request), "12");
  request.set_distance_max(1);
  EXPECT_EQ(Found(request), "1");
  request.set_offset(0);
  request.clear_distance_max();
  request.set_score_threshold(0);
  request.set_with_payload(true);
  request.mutable_payload()->add_include("n");
  v1::SearchResponse response;
  ASSERT_TRUE(Search(request, &response).ok());
  ASSERT_EQ(response.results(0).hits_size(), 1);
  EXPECT_EQ(response.results(0).hits(0).payload_json(), R"({"n":0})");

  v1::GetRequest get;
  get.set_collection("gallery");
  get.add_ids()->set_name("0");
  get.mutable_payload()->add_exclude("n");
  grpc::ClientContext get_context;
  v1::GetResponse got;
  ASSERT_TRUE(retrieval_->Get(&get_context, get, &got).ok());
  EXPECT_EQ(got.items(0).payload_json(), R"({"t":"x"})");

  v1::ScrollRequest scroll;
  scroll.set_collection("gallery");
  scroll.mutable_payload()->add_include("t");
  grpc::ClientContext scroll_context;
  v1::ScrollResponse page;
  auto reader = retrieval_->Scroll(&scroll_context, scroll);
  ASSERT_TRUE(reader->Read(&page));
  EXPECT_EQ(page.items(0).payload_json(), R"({"t":"x"})");
  EXPECT_EQ(page.items(1).payload_json(), "{}");
  EXPECT_FALSE(reader->Read(&page));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(Selection, ADeletionByFilterGoesOnByItsToken) {
  WritePayloads({R"({"n":0})", R"({"n":1})", R"({"n":2})", R"({"n":3})", R"({"n":4})"});
  v1::DeleteRequest request;
  request.set_collection("gallery");
  v1::FilterRange* range = request.mutable_filter()->mutable_range();
  range->set_field("n");
  range->mutable_greater_equal()->set_integer(1);
  request.set_limit(3);
  v1::DeleteResponse response;
  ASSERT_TRUE(Delete(request, &response).ok());
  EXPECT_EQ(response.deleted(), 3u);
  EXPECT_EQ(response.durability(), v1::DURABILITY_DURABLE);
  ASSERT_FALSE(response.token().empty());
  request.set_token(response.token());
  ASSERT_TRUE(Delete(request, &response).ok());
  EXPECT_EQ(response.deleted(), 1u);
  EXPECT_EQ(response.token(), "");
  EXPECT_EQ(Found(FromTheOrigin()), "0");

  request.add_ids()->set_name("0");
  EXPECT_THAT(Delete(request, &response), Fails(StatusCode::INVALID_ARGUMENT, "field 'ids' is given"));
  request.clear_filter();
  EXPECT_THAT(Delete(request, &response), Fails(StatusCode::INVALID_ARGUMENT, "field 'limit' is 3"));
  request.clear_limit();
  EXPECT_THAT(Delete(request, &response), Fails(StatusCode::INVALID_ARGUMENT, "field 'token' is given"));
}

TEST_F(Selection, ACollectionThatDemandsGenerationsRefusesVectorsWithoutOne) {
  const auto update = [this](std::optional<bool> demanded, v1::UpdateResponse* response) {
    grpc::ClientContext context;
    v1::UpdateRequest request;
    request.set_collection("gallery");
    if (demanded) request.set_require_generation(*demanded);
    return collections_->Update(&context, request, response);
  };
  v1::UpdateResponse response;
  EXPECT_THAT(update(std::nullopt, &response), Fails(StatusCode::INVALID_ARGUMENT, "require_generation"));
  ASSERT_TRUE(update(true, &response).ok());
  EXPECT_TRUE(response.collection().require_generation());
  v1::UpsertRequest request = Batch("gallery", {"a"});
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "field 'generation' is not set"));
  EXPECT_THAT(Upsert(request), Fails(StatusCode::INVALID_ARGUMENT, "require_generation; there are: 1"));
  request.set_generation(1);
  EXPECT_TRUE(Upsert(request).ok());
  ASSERT_TRUE(update(false, &response).ok());
  request.set_generation(0);
  EXPECT_TRUE(Upsert(request).ok());

  grpc::ClientContext context;
  v1::CreateRequest create;
  create.set_name("strict");
  create.set_geometry(v1::GEOMETRY_COSINE);
  create.set_require_generation(true);
  v1::CreateResponse created;
  ASSERT_TRUE(collections_->Create(&context, create, &created).ok());
  EXPECT_TRUE(created.collection().require_generation());
}

TEST_F(Selection, StrictModeIsSetMemberByMemberAndShown) {
  v1::CreateRequest create;
  create.set_name("bounded");
  create.set_geometry(v1::GEOMETRY_COSINE);
  create.mutable_strict_mode()->set_enabled(true);
  create.mutable_strict_mode()->set_batch_items_max(1);
  create.mutable_strict_mode()->set_allow_exact(false);
  v1::CreateResponse created;
  grpc::ClientContext creating;
  ASSERT_TRUE(collections_->Create(&creating, create, &created).ok());
  EXPECT_EQ(created.collection().strict_mode().SerializeAsString(), create.strict_mode().SerializeAsString());
  EXPECT_THAT(Upsert(Batch("bounded", {"a", "b"})),
              Fails(StatusCode::INVALID_ARGUMENT, "strict mode of collection 'bounded': field 'items' is 2 long"));

  const auto update = [this](const v1::StrictMode& strict, v1::UpdateResponse* response) {
    grpc::ClientContext context;
    v1::UpdateRequest request;
    request.set_collection("bounded");
    *request.mutable_strict_mode() = strict;
    return collections_->Update(&context, request, response);
  };
  v1::UpdateResponse response;
  EXPECT_THAT(update({}, &response), Fails(StatusCode::INVALID_ARGUMENT, "strict_mode"));
  v1::StrictMode change;
  change.set_k_max(7);
  ASSERT_TRUE(update(change, &response).ok());
  const v1::StrictMode& strict = response.collection().strict_mode();
  EXPECT_TRUE(strict.enabled());
  EXPECT_EQ(strict.k_max(), 7u);
  EXPECT_EQ(strict.batch_items_max(), 1u);
  EXPECT_TRUE(strict.has_allow_exact() && !strict.allow_exact());
  EXPECT_FALSE(strict.has_ef_max());
}

TEST_F(Selection, ACollectionSaysWhatBecomesOfForeignVectors) {
  const auto update = [this](int value, v1::UpdateResponse* response) {
    grpc::ClientContext context;
    v1::UpdateRequest request;
    request.set_collection("gallery");
    request.set_foreign_vectors(static_cast<v1::ForeignVectors>(value));
    return collections_->Update(&context, request, response);
  };
  v1::UpdateResponse response;
  for (const int wrong : {4, 99, -1}) {
    EXPECT_THAT(update(wrong, &response), Fails(StatusCode::INVALID_ARGUMENT, StrCat("'foreign_vectors' is ", wrong)));
  }
  EXPECT_THAT(update(0, &response), Fails(StatusCode::INVALID_ARGUMENT, "at least one setting"));
  ASSERT_TRUE(update(v1::FOREIGN_VECTORS_REJECT, &response).ok());
  EXPECT_EQ(response.collection().foreign_vectors(), v1::FOREIGN_VECTORS_REJECT);

  const auto create = [this](const std::string& name, int value, v1::CreateResponse* created) {
    grpc::ClientContext context;
    v1::CreateRequest request;
    request.set_request_id("the same for both");
    request.set_name(name);
    request.set_geometry(v1::GEOMETRY_COSINE);
    request.set_foreign_vectors(static_cast<v1::ForeignVectors>(value));
    return collections_->Create(&context, request, created);
  };
  v1::CreateResponse created;
  EXPECT_THAT(create("watched", 99, &created), Fails(StatusCode::INVALID_ARGUMENT, "'foreign_vectors' is 99"));
  ASSERT_TRUE(create("watched", v1::FOREIGN_VECTORS_IGNORE, &created).ok());
  EXPECT_EQ(created.collection().foreign_vectors(), v1::FOREIGN_VECTORS_IGNORE);
  ASSERT_TRUE(create("watched", v1::FOREIGN_VECTORS_IGNORE, &created).ok()) << "a repeated request";
  EXPECT_FALSE(create("watched", v1::FOREIGN_VECTORS_WARN, &created).ok()) << "another request of the same id";
}

}  // namespace
}  // namespace lightcone::server
