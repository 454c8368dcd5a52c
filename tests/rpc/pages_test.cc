// Lists of what operators store: pages of a bounded size, and bounds on what is stored.
#include <string>
#include <vector>

#include "tests/rpc/fake_engine.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;

class Pages : public WireTest {
 protected:
  // Generation `number` of the collection, with a manifest of about `bytes` bytes.
  grpc::Status RegisterLong(uint32_t number, size_t bytes) {
    return Register("gallery", "{\"dimension\":4,\"notes\":\"" + std::string(bytes, 'n') + "\"}",
                    "register-" + std::to_string(number));
  }

  v1::GenerationsListResponse List(const v1::GenerationsListRequest& request) {
    grpc::ClientContext context;
    v1::GenerationsListResponse page;
    const grpc::Status status = generations_->List(&context, request, &page);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return page;
  }
};

TEST_F(Pages, OfGenerationsAreBoundedByTheirBytes) {
  Serve();
  ASSERT_TRUE(Create("gallery").ok());
  constexpr uint32_t kGenerations = 20;
  constexpr size_t kManifest = 200 << 10;
  for (uint32_t i = 1; i <= kGenerations; ++i) {
    const grpc::Status status = RegisterLong(i, kManifest);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  v1::GenerationsListRequest request;
  request.set_collection("gallery");
  uint32_t next = 1;
  int pages = 0;
  do {
    const v1::GenerationsListResponse page = List(request);
    EXPECT_LT(page.ByteSizeLong(), size_t{4} << 20) << "clients take 4 MiB by default";
    for (const v1::GenerationInfo& info : page.generations()) {
      EXPECT_EQ(info.generation(), next++);
      EXPECT_GT(info.manifest_json().size(), kManifest);
    }
    request.set_token(page.token());
    ++pages;
  } while (!request.token().empty());
  EXPECT_EQ(next, kGenerations + 1);
  EXPECT_EQ(pages, 2);

  request.set_without_manifests(true);
  v1::GenerationsListResponse short_page = List(request);
  EXPECT_EQ(short_page.generations_size(), static_cast<int>(kGenerations));
  EXPECT_TRUE(short_page.token().empty());
  EXPECT_LT(short_page.ByteSizeLong(), kManifest);
  request.set_page_size(8);
  request.set_token(List(request).token());
  short_page = List(request);
  ASSERT_EQ(short_page.generations_size(), 8);
  EXPECT_EQ(short_page.generations(0).generation(), 9u);
  EXPECT_FALSE(short_page.token().empty());
}

TEST_F(Pages, OfAdaptersResumeAfterTheToken) {
  auto engine = std::make_unique<FakeEngine>();
  for (uint32_t from = 2; from <= 12; ++from) {
    for (uint32_t to = 1; to < from; ++to) {
      AdapterStatus status;
      status.from = from;
      status.to = to;
      engine->adapters.push_back(status);
    }
  }
  const size_t count = engine->adapters.size();
  Serve(std::move(engine));
  v1::ListAdaptersRequest request;
  request.set_collection("gallery");
  request.set_page_size(5);
  size_t seen = 0;
  std::pair<uint32_t, uint32_t> last;
  do {
    grpc::ClientContext context;
    v1::ListAdaptersResponse page;
    ASSERT_TRUE(generations_->ListAdapters(&context, request, &page).ok());
    EXPECT_LE(page.adapters_size(), 5);
    for (const v1::AdapterInfo& info : page.adapters()) {
      const std::pair<uint32_t, uint32_t> pair(info.from_generation(), info.to_generation());
      EXPECT_LT(last, pair);
      last = pair;
      ++seen;
    }
    request.set_token(page.token());
  } while (!request.token().empty());
  EXPECT_EQ(seen, count);
}

TEST_F(Pages, ManifestsAndGenerationsAreBounded) {
  config_.engine.limits.manifest_bytes_max = 1'000;
  config_.engine.limits.generations_max = 2;
  Serve();
  ASSERT_TRUE(Create("gallery").ok());
  EXPECT_THAT(RegisterLong(1, 1'000),
              Fails(StatusCode::INVALID_ARGUMENT, "at most 1000 bytes (limits.manifest_bytes_max)"));
  EXPECT_TRUE(RegisterLong(1, 100).ok());
  EXPECT_TRUE(RegisterLong(2, 100).ok());
  EXPECT_THAT(RegisterLong(3, 100),
              Fails(StatusCode::RESOURCE_EXHAUSTED, "has 2 generations; allowed: at most 2 (limits.generations_max)"));
}

}  // namespace
}  // namespace lightcone::server
