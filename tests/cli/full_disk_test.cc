// A server whose disk is full: a limit on the size of its files stands for it. Writes are refused, reads go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

constexpr uint64_t kBatch = 10;

void MakeCollection(client::Client& client) {
  v1::CreateRequest create;
  create.set_name("full");
  create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
  ASSERT_TRUE(client.CreateCollection(create).ok());
  v1::RegisterRequest manifest;
  manifest.set_collection("full");
  manifest.set_manifest_json(R"({"dimension":2})");
  ASSERT_TRUE(client.RegisterGeneration(manifest).ok());
  v1::ActivateRequest activate;
  activate.set_collection("full");
  activate.set_generation(1);
  ASSERT_TRUE(client.ActivateGeneration(activate).ok());
}

absl::Status UpsertBatch(client::Client& client, uint64_t batch) {
  v1::UpsertRequest request;
  request.set_collection("full");
  for (uint64_t i = 0; i < kBatch; ++i) {
    v1::Item* item = request.add_items();
    item->mutable_id()->set_number(batch * kBatch + i);
    const float vector[] = {static_cast<float>(batch), static_cast<float>(i)};
    client::SetVector(vector, 2, item->mutable_vector());
    item->set_payload_json("{\"text\":\"" + std::string(10'000, static_cast<char>('a' + batch % 26)) + "\"}");
  }
  return client.Upsert(request).status();
}

// What was acknowledged is there whole, and of the batch that was refused there is nothing.
void ExpectBatches(client::Client& client, uint64_t batches) {
  v1::CountRequest count;
  count.set_collection("full");
  const auto counted = client.Count(count);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->count(), batches * kBatch);
  for (uint64_t batch = 0; batch <= batches; ++batch) {
    v1::GetRequest get;
    get.set_collection("full");
    for (uint64_t i = 0; i < kBatch; ++i) get.add_ids()->set_number(batch * kBatch + i);
    const auto got = client.Get(get);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(static_cast<uint64_t>(got->items_size()), batch == batches ? 0 : kBatch) << batch;
  }
  v1::SearchRequest search;
  search.set_collection("full");
  search.set_k(1'000);
  const float origin[] = {0, 0};
  client::SetVector(origin, 2, search.add_queries()->mutable_vector());
  const auto found = client.Search(search);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(static_cast<uint64_t>(found->results(0).hits_size()), batches * kBatch);
}

TEST(FullDisk, BatchesAreRefusedWholeReadsGoOnAndNothingAcknowledgedIsLost) {
  const TemporaryFolder folder;
  // The server finds that the log of its store may not grow above 2 MiB; as on a full disk, no signal ends it.
  const std::string limited = folder / "limited";
  ASSERT_TRUE(
      WriteFileAtomically(limited, StrCat("#!/bin/bash\ntrap '' XFSZ\nulimit -f 2048\nexec ", Binary(), " \"$@\"\n"))
          .ok());
  std::filesystem::permissions(limited, std::filesystem::perms::owner_all);
  auto server = ChildServer::Start(limited, folder / "data");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = client::Client::Connect({.address = (*server)->address()}).value();
  MakeCollection(*client);
  absl::Status status;
  uint64_t batches = 0;
  for (; batches < 100; ++batches) {
    status = UpsertBatch(*client, batches);
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(MessageOf(status), testing::HasSubstr("the disk is full: free some space"));
  ASSERT_GT(batches, 5u);
  ExpectBatches(*client, batches);
  EXPECT_EQ((*server)->Terminate(), 0);

  // The same folder with room again.
  server = ChildServer::Start(Binary(), folder / "data");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto again = client::Client::Connect({.address = (*server)->address()}).value();
  ExpectBatches(*again, batches);
  EXPECT_TRUE(UpsertBatch(*again, batches).ok());
  EXPECT_EQ((*server)->Terminate(), 0);
}

TEST(FullDisk, ABuildOfTheIndexThatFailsIsTold) {
  const TemporaryFolder folder;
  auto server = ChildServer::Start(Binary(), folder / "data");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = client::Client::Connect({.address = (*server)->address()}).value();
  MakeCollection(*client);
  ASSERT_TRUE(UpsertBatch(*client, 0).ok());
  const std::string segments = folder / "data/index/1/segments";
  v1::RebuildRequest rebuild;
  rebuild.set_collection("full");
  rebuild.set_wait(true);
  std::filesystem::rename(segments, segments + ".real");
  std::ofstream(segments) << "in the way";
  const absl::Status failed = client->RebuildCollection(rebuild).status();
  EXPECT_THAT(MessageOf(failed), testing::HasSubstr("/segments/"));
  const TemporaryFolder scratch;
  const std::vector<std::string> get = {"collection", "get", "full", "--server", (*server)->address()};
  EXPECT_THAT(RunHere(scratch, get).out, testing::ContainsRegex("index builds fail: .*/segments/"));
  ExpectBatches(*client, 1);
  std::filesystem::remove(segments);
  std::filesystem::rename(segments + ".real", segments);
  EXPECT_TRUE(client->RebuildCollection(rebuild).ok());
  EXPECT_THAT(RunHere(scratch, get).out, testing::Not(testing::HasSubstr("index builds fail")));
  EXPECT_EQ((*server)->Terminate(), 0);
}

}  // namespace
}  // namespace lightcone::cli
