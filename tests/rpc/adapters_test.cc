// Adapters and longer vectors over the wire against the real engine.
#include "base/status.h"
#include "models/adapter_file.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// Euclidean: generation 1 of dimension 4, and 2 of dimension 3, which knows nothing of it. The item adapter forgets the
// last number, the query adapter sets it to 3.
class WireAdapters : public WireTest {
 protected:
  void SetUp() override {
    config_.engine.limits.adapter_bytes_max = 50'000;
    Serve();
    MakeGallery("gallery");
    ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b", "c"})).ok());
    grpc::ClientContext context;
    v1::RegisterRequest request;
    request.set_request_id("second");
    request.set_collection("gallery");
    request.set_manifest_json(R"({"dimension":3})");
    request.set_expects_adapter(true);
    v1::RegisterResponse response;
    const grpc::Status registered = generations_->Register(&context, request, &response);
    ASSERT_TRUE(registered.ok()) << registered.error_message();
    EXPECT_THAT(response.generation().reach(), ElementsAre(2));
  }

  static std::string File(bool item) {
    AdapterFile file;
    file.spec.direction = item ? AdapterDirection::kItem : AdapterDirection::kQuery;
    file.spec.kind = AdapterKind::kAffine;
    file.spec.input_dimension = item ? 4 : 3;
    file.spec.target = Space{Metric::kEuclidean, item ? 3 : 4, 1, 1};
    if (item) {
      file.spec.linear = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
      file.spec.offset = {0, 0, 0};
    } else {
      file.spec.linear = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
      file.spec.offset = {0, 0, 0, 3};
    }
    file.fit.loss = "reg+rel";
    file.fit.pairs = 40;
    file.fit.held_out_error = 0.25;
    auto bytes = EncodeAdapter(file);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : "";
  }

  grpc::Status Put(uint32_t from, uint32_t to, const std::string& bytes, v1::AdapterInfo* info = nullptr) {
    grpc::ClientContext context;
    v1::PutAdapterRequest request;
    request.set_collection("gallery");
    request.set_from_generation(from);
    request.set_to_generation(to);
    request.set_adapter(bytes);
    v1::PutAdapterResponse response;
    const grpc::Status status = generations_->PutAdapter(&context, request, &response);
    if (info != nullptr) *info = response.adapter();
    return status;
  }

  grpc::Status Drop(uint32_t from, uint32_t to, bool force) {
    grpc::ClientContext context;
    v1::DropAdapterRequest request;
    request.set_collection("gallery");
    request.set_from_generation(from);
    request.set_to_generation(to);
    request.set_force(force);
    v1::DropAdapterResponse response;
    return generations_->DropAdapter(&context, request, &response);
  }

  v1::ListAdaptersResponse List() {
    grpc::ClientContext context;
    v1::ListAdaptersRequest request;
    request.set_collection("gallery");
    v1::ListAdaptersResponse response;
    EXPECT_TRUE(generations_->ListAdapters(&context, request, &response).ok());
    return response;
  }

  grpc::Status SearchBy(v1::AdapterMode mode, v1::SearchResponse* response) {
    v1::SearchRequest request = SearchFor("gallery", {0, 1, 2});
    request.set_generation(2);
    request.set_adapter_mode(mode);
    return Search(request, response);
  }
};

TEST_F(WireAdapters, ArePutListedUsedByModeAndDropped) {
  v1::AdapterInfo info;
  ASSERT_TRUE(Put(1, 2, File(true), &info).ok());
  EXPECT_EQ(info.direction(), v1::ADAPTER_DIRECTION_ITEM);
  EXPECT_EQ(info.version(), 1u);
  EXPECT_EQ(info.kind(), "affine");
  EXPECT_EQ(info.input_dimension(), 4u);
  EXPECT_EQ(info.output_dimension(), 3u);
  EXPECT_EQ(info.loss(), "reg+rel");
  EXPECT_EQ(info.pairs(), 40u);
  EXPECT_EQ(info.held_out_error(), 0.25);
  EXPECT_EQ(info.bytes(), File(true).size());
  EXPECT_GT(info.put().seconds(), 0);
  v1::SearchResponse alone;  // there is the item adapter only
  EXPECT_TRUE(SearchBy(v1::ADAPTER_MODE_ITEM, &alone).ok());
  EXPECT_THAT(SearchBy(v1::ADAPTER_MODE_QUERY, &alone), Fails(StatusCode::FAILED_PRECONDITION, "adapter_mode"));
  ASSERT_TRUE(Put(2, 1, File(false)).ok());
  ASSERT_EQ(List().adapters_size(), 2);
  EXPECT_EQ(List().adapters(1).direction(), v1::ADAPTER_DIRECTION_QUERY);

  // The items are (x, 1, 2, 3): both adapters put "a" at distance 0, "b" at 1 and "c" at 2.
  for (const v1::AdapterMode mode : {v1::ADAPTER_MODE_UNSPECIFIED, v1::ADAPTER_MODE_QUERY, v1::ADAPTER_MODE_ITEM}) {
    v1::SearchResponse response;
    const grpc::Status status = SearchBy(mode, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.results(0).hits_size(), 3);
    EXPECT_EQ(response.results(0).hits(0).id().name(), "a");
    EXPECT_NEAR(response.results(0).hits(2).distance(), 2.0, 1e-6);
    EXPECT_EQ(response.out_of_reach(), 0u);
  }
  v1::SearchResponse response;
  EXPECT_THAT(SearchBy(v1::ADAPTER_MODE_NONE, &response), Fails(StatusCode::FAILED_PRECONDITION, "out of reach"));
  EXPECT_THAT(SearchBy(static_cast<v1::AdapterMode>(9), &response),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'adapter_mode' is 9; allowed: ADAPTER_MODE_NONE (1)"));

  ASSERT_TRUE(Activate("gallery", 2, "activate-2").ok());
  EXPECT_TRUE(Drop(1, 2, false).ok());
  EXPECT_THAT(Drop(2, 1, false), Fails(StatusCode::FAILED_PRECONDITION, "3 items"));
  EXPECT_TRUE(Drop(2, 1, true).ok());
  EXPECT_EQ(List().adapters_size(), 0);
  EXPECT_THAT(Drop(2, 1, true), Fails(StatusCode::NOT_FOUND, "no adapter 2 -> 1"));
}

TEST_F(WireAdapters, BadOnesAreRefusedByFieldAndChangeNothing) {
  EXPECT_THAT(Put(2, 1, File(true)), Fails(StatusCode::INVALID_ARGUMENT, "field 'adapter.direction' is item"));
  EXPECT_THAT(Put(1, 3, File(true)), Fails(StatusCode::NOT_FOUND, "no generation 3"));
  EXPECT_THAT(Put(1, 1, File(true)), Fails(StatusCode::INVALID_ARGUMENT, "to_generation"));
  EXPECT_THAT(Put(1, 2, ""), Fails(StatusCode::INVALID_ARGUMENT, "field 'adapter' is empty"));
  EXPECT_THAT(Put(1, 2, std::string(50'001, 'x')),
              Fails(StatusCode::INVALID_ARGUMENT, "field 'adapter' is 50001 bytes long; allowed: 1 .. 50000"));
  EXPECT_THAT(Put(1, 2, File(true).substr(9)), Fails(StatusCode::INVALID_ARGUMENT, "field 'adapter'"));
  EXPECT_EQ(List().adapters_size(), 0);
}

TEST_F(WireAdapters, LongerVectorsSearchTheOldGalleryByTheirPrefix) {
  ASSERT_TRUE(Register("gallery", R"({"dimension":6,"compatible_prefix":4})", "third", 1).ok());
  grpc::ClientContext context;
  v1::GenerationsGetRequest get;
  get.set_collection("gallery");
  get.set_generation(3);
  v1::GenerationsGetResponse got;
  ASSERT_TRUE(generations_->Get(&context, get, &got).ok());
  EXPECT_EQ(got.generation().compatible_prefix(), 4u);
  EXPECT_THAT(got.generation().reach(), ElementsAre(1, 3));
  v1::UpsertRequest add;
  add.set_collection("gallery");
  add.set_generation(3);
  add.add_items()->mutable_id()->set_name("new");
  for (const float value : {9.0f, 1.0f, 2.0f, 3.0f, 0.0f, 4.0f}) {
    add.mutable_items(0)->mutable_vector()->mutable_floats()->add_values(value);
  }
  ASSERT_TRUE(Upsert(add).ok());
  v1::SearchRequest request = SearchFor("gallery", {9, 1, 2, 3, 0, 1}, 10);
  request.set_generation(3);
  v1::SearchResponse response;
  ASSERT_TRUE(Search(request, &response).ok());
  std::vector<std::string> names;
  for (const v1::Hit& hit : response.results(0).hits()) names.push_back(hit.id().name());
  EXPECT_THAT(names, ElementsAre("new", "c", "b", "a")) << "distances 3, 7, 8, 9";
  EXPECT_NEAR(response.results(0).hits(0).distance(), 3.0, 1e-6);
}

}  // namespace
}  // namespace lightcone::server
