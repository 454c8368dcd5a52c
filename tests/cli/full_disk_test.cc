// A server whose disk is full: a limit on the size of its files stands for it. Writes are refused, reads go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

constexpr uint64_t kBatch = 10;

// And it serves from then on.
void AddGeneration(client::Client& client, uint32_t generation, int dimension) {
  v1::RegisterRequest manifest;
  manifest.set_collection("full");
  manifest.set_parent(generation - 1);
  manifest.set_manifest_json(StrCat("{\"dimension\":", dimension, "}"));
  ASSERT_TRUE(client.RegisterGeneration(manifest).ok());
  v1::ActivateRequest activate;
  activate.set_collection("full");
  activate.set_generation(generation);
  ASSERT_TRUE(client.ActivateGeneration(activate).ok());
}

void MakeCollection(client::Client& client, int dimension = 2) {
  v1::CreateRequest create;
  create.set_name("full");
  create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
  ASSERT_TRUE(client.CreateCollection(create).ok());
  AddGeneration(client, 1, dimension);
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

// A server that finds that the log of its store may not grow above `kib`; as on a full disk, no signal ends it.
absl::StatusOr<std::unique_ptr<ChildServer>> StartLimited(const TemporaryFolder& folder, int kib) {
  const std::string limited = folder / "limited";
  LC_RETURN_IF_ERROR(WriteFileAtomically(
      limited, StrCat("#!/bin/bash\ntrap '' XFSZ\nulimit -f ", kib, "\nexec ", Binary(), " \"$@\"\n")));
  std::filesystem::permissions(limited, std::filesystem::perms::owner_all);
  return ChildServer::Start(limited, folder / "data");
}

TEST(FullDisk, BatchesAreRefusedWholeReadsGoOnAndNothingAcknowledgedIsLost) {
  const TemporaryFolder folder;
  auto server = StartLimited(folder, 2048);
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

constexpr int kWide = 256;
constexpr uint64_t kWideItems = 2'000;

std::vector<float> WideVector(uint64_t item, uint32_t generation) {
  std::vector<float> vector(kWide, static_cast<float>(generation));
  vector[0] = static_cast<float>(item);
  return vector;
}

v1::UpsertRequest WideBatch(const std::vector<uint64_t>& items, uint32_t generation) {
  v1::UpsertRequest request;
  request.set_collection("full");
  request.set_generation(generation);
  for (const uint64_t item : items) {
    v1::Item* to = request.add_items();
    to->mutable_id()->set_number(item);
    client::SetVector(WideVector(item, generation).data(), kWide, to->mutable_vector());
  }
  return request;
}

// By generation 1, under generation 2, which is to embed all of it anew.
void MakeWideGallery(client::Client& client) {
  MakeCollection(client, kWide);
  for (uint64_t begin = 0; begin < kWideItems; begin += 100) {
    std::vector<uint64_t> items(100);
    std::iota(items.begin(), items.end(), begin);
    ASSERT_TRUE(client.Upsert(WideBatch(items, 1)).ok());
  }
  AddGeneration(client, 2, kWide);
  v1::BackfillStartRequest start;
  start.set_collection("full");
  ASSERT_TRUE(client.StartBackfill(start).ok());
}

// Leases and embeds until there is nothing left, or a call fails, whose error it returns.
absl::Status EmbedAll(client::Client& client, std::set<uint64_t>* embedded) {
  std::string finished;
  while (true) {
    v1::LeaseRequest request;
    request.set_collection("full");
    request.set_items_max(50);
    request.set_finished_token(finished);
    LC_ASSIGN_OR_RETURN(const v1::LeaseResponse lease, client.LeaseBackfill(request));
    if (lease.state() == v1::BACKFILL_STATE_DONE) return absl::OkStatus();
    if (lease.state() == v1::BACKFILL_STATE_ORDERING) continue;
    if (lease.items().empty()) return absl::InternalError(StrCat("nothing to lease in state ", lease.state()));
    finished = lease.token();
    std::vector<uint64_t> items;
    for (const v1::LeasedItem& item : lease.items()) items.push_back(item.id().number());
    v1::UpsertRequest batch = WideBatch(items, 2);
    batch.set_same_content(true);
    for (int i = 0; i < lease.items_size(); ++i) {
      batch.mutable_items(i)->set_expected_sequence(lease.items(i).sequence());
    }
    LC_RETURN_IF_ERROR(client.Upsert(batch).status());
    embedded->insert(items.begin(), items.end());
  }
}

// Every item once, by generation 2 if that was acknowledged and else by 1.
void ExpectMixed(client::Client& client, const std::set<uint64_t>& embedded) {
  v1::SearchRequest search;
  search.set_collection("full");
  search.set_k(2 * kWideItems);
  search.set_exact(true);
  client::SetVector(WideVector(0, 2).data(), kWide, search.add_queries()->mutable_vector());
  const auto found = client.Search(search);
  ASSERT_TRUE(found.ok()) << found.status();
  std::set<uint64_t> seen;
  for (const v1::Hit& hit : found->results(0).hits()) {
    const uint64_t item = hit.id().number();
    EXPECT_TRUE(seen.insert(item).second) << item << " is found twice";
    EXPECT_EQ(hit.generation(), embedded.contains(item) ? 2u : 1u) << item;
  }
  EXPECT_EQ(seen.size(), kWideItems);
}

TEST(FullDisk, ABackfillLosesNoItemAndGoesOnWhenThereIsRoomAgain) {
  const TemporaryFolder folder;
  auto server = StartLimited(folder, 3 * 1024);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = client::Client::Connect({.address = (*server)->address()}).value();
  MakeWideGallery(*client);
  ASSERT_FALSE(HasFatalFailure());
  std::set<uint64_t> embedded;
  const absl::Status full = EmbedAll(*client, &embedded);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(MessageOf(full), testing::HasSubstr("the disk is full: free some space"));
  EXPECT_GT(embedded.size(), 0u);
  EXPECT_LT(embedded.size(), kWideItems);
  ExpectMixed(*client, embedded);
  EXPECT_EQ((*server)->Terminate(), 0);

  server = ChildServer::Start(Binary(), folder / "data");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto again = client::Client::Connect({.address = (*server)->address()}).value();
  ExpectMixed(*again, embedded);
  const size_t before = embedded.size();
  std::set<uint64_t> rest;
  const absl::Status done = EmbedAll(*again, &rest);
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_EQ(before + rest.size(), kWideItems) << "nothing is leased that is done";
  embedded.merge(rest);
  ExpectMixed(*again, embedded);
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
