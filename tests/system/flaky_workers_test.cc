// Acceptance: 64 flaky workers (crash, hang, duplicate, late, wrong) bring a gallery to the new generation over gRPC,
// while writers replace contents by both generations. At the end every item that can be decoded is embedded by the new
// generation from its current content, nothing is embedded wrongly, and no lease is left.
// LIGHTCONE_FLAKY_ITEMS: size of the gallery, 8,000.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <stop_token>
#include <thread>

#include "cli/child_server.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/flaky_worker.h"
#include "tests/system/flaky_world.h"

namespace lightcone {
namespace {

constexpr uint64_t kLoadBatch = 100;

uint64_t ItemsFromEnvironment() {
  const char* text = std::getenv("LIGHTCONE_FLAKY_ITEMS");
  return text == nullptr ? 8'000 : std::strtoull(text, nullptr, 10);
}

v1::UpsertRequest ContentsOf(const std::vector<uint64_t>& items, const std::vector<Version>& versions,
                             uint32_t generation) {
  v1::UpsertRequest request;
  request.set_collection(kGallery);
  request.set_generation(generation);
  for (const uint64_t item : items) {
    v1::Item* added = request.add_items();
    added->mutable_id()->set_number(item);
    const std::vector<float> vector = EmbeddingOf(item, versions[item], generation);
    client::SetVector(vector.data(), kDimension, added->mutable_vector());
    added->set_payload_json(PayloadOf(item, versions[item]));
  }
  return request;
}

// Replaces the contents of its own items, by the new generation and by the old one in turns, spread over the backfill;
// the last ones when all that was ordered is through.
void RunWriter(uint64_t number, FlakyWorld* world) {
  const auto client = ClientOf(world->address());
  std::vector<std::vector<uint64_t>> batches(1);
  for (uint64_t item = 0, nth = 0; item < world->items(); ++item) {
    if (!IsReplaced(item) || nth++ % kWriters != number) continue;
    if (batches.back().size() == 5) batches.emplace_back();
    batches.back().push_back(item);
  }
  for (size_t i = 0; i < batches.size() && !testing::Test::HasFailure(); ++i) {
    world->AwaitWritten(world->items() * 8 / 10 * i / batches.size());
    if (i + 2 >= batches.size()) world->AwaitThrough();
    for (const uint64_t item : batches[i]) ++world->versions()[item];
    const auto written = client->Upsert(ContentsOf(batches[i], world->versions(), i % 2 == 0 ? kNew : kOld));
    EXPECT_TRUE(written.ok()) << written.status();
    world->replaced += static_cast<int64_t>(batches[i].size());
  }
  world->NoteWriterEnded();
}

// Its hits are leased before all others.
void RunSearcher(const std::stop_token& stop, FlakyWorld* world) {
  const auto client = ClientOf(world->address());
  std::mt19937_64 random(5);
  while (!stop.stop_requested() && !testing::Test::HasFailure()) {
    v1::SearchRequest request;
    request.set_collection(kGallery);
    request.set_k(10);
    const std::vector<float> vector = EmbeddingOf(random() % world->items(), 1, kNew);
    client::SetVector(vector.data(), kDimension, request.add_queries()->mutable_vector());
    const auto answer = client->Search(request);
    EXPECT_TRUE(answer.ok() || absl::IsResourceExhausted(answer.status())) << answer.status();
  }
}

class FlakyWorkers : public testing::Test {
 protected:
  void SetUp() override {
    auto server =
        cli::ChildServer::Start(LIGHTCONE_BINARY_DIR "/bin/lightcone", folder_ / "data", {"--log-level", "warning"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    world_ = std::make_unique<FlakyWorld>(server_->address(), ItemsFromEnvironment());
    MakeGallery();
  }

  // All items by the old generation; the new one is active.
  void MakeGallery() {
    client::Client& client = world_->client();
    v1::CreateRequest create;
    create.set_name(kGallery);
    create.set_geometry(v1::GEOMETRY_LORENTZ);
    create.set_curvature(1.0);
    ASSERT_TRUE(client.CreateCollection(create).ok());
    for (const uint32_t generation : {kOld, kNew}) {
      v1::RegisterRequest add;
      add.set_collection(kGallery);
      add.set_parent(generation - 1);
      add.set_manifest_json(StrCat("{\"dimension\":", kDimension, ",\"curvature\":1.0,\"clip_radius\":1.0}"));
      ASSERT_TRUE(client.RegisterGeneration(add).ok());
    }
    Activate(kOld);
    for (uint64_t begin = 0; begin < world_->items(); begin += kLoadBatch) {
      std::vector<uint64_t> items;
      for (uint64_t item = begin; item < std::min(begin + kLoadBatch, world_->items()); ++item) items.push_back(item);
      v1::UpsertRequest batch = ContentsOf(items, world_->versions(), kOld);
      batch.set_durability(v1::DURABILITY_PROCESS);
      ASSERT_TRUE(client.Upsert(batch).ok());
    }
    Activate(kNew);
  }

  void Activate(uint32_t generation) {
    v1::ActivateRequest activate;
    activate.set_collection(kGallery);
    activate.set_generation(generation);
    const auto activated = world_->client().ActivateGeneration(activate);
    ASSERT_TRUE(activated.ok()) << activated.status();
  }

  std::vector<uint64_t> LeaseAll() {
    v1::LeaseRequest request;
    request.set_collection(kGallery);
    request.set_items_max(10'000);
    const auto lease = world_->client().LeaseBackfill(request);
    EXPECT_TRUE(lease.ok()) << lease.status();
    std::vector<uint64_t> items;
    if (!lease.ok()) return items;
    for (const v1::LeasedItem& leased : lease->items()) items.push_back(leased.id().number());
    return items;
  }

  // Every item by its current content, and by the new generation unless it cannot be decoded.
  void CheckItems() {
    const uint64_t items = world_->items();
    for (uint64_t begin = 0; begin < items; begin += 1'000) {
      v1::GetRequest get;
      get.set_collection(kGallery);
      get.set_with_vector(true);
      for (uint64_t item = begin; item < std::min(begin + 1'000, items); ++item) get.add_ids()->set_number(item);
      const auto got = world_->client().Get(get);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->missing_size(), 0);
      for (const v1::StoredItem& stored : got->items()) {
        const uint64_t item = stored.id().number();
        const Version version = world_->versions()[item];
        const uint32_t generation = Decodes(item) ? kNew : kOld;
        ASSERT_EQ(stored.generation(), generation) << "item " << item << " version " << version;
        ASSERT_EQ(stored.payload_json(), PayloadOf(item, version));
        ASSERT_EQ(client::VectorOf(stored.vector()).value(), EmbeddingOf(item, version, generation)) << "item " << item;
      }
    }
  }

  // Nothing is leased once the last lease has expired, what is left can be leased at once, and it is what nobody
  // decodes.
  void CheckLeases() {
    while (absl::Now() <= world_->last_expiry()) absl::SleepFor(kPoll);
    v1::StatusResponse before = world_->Status();
    // What the old generation wrote since the order was made is ordered once that is through: maybe only now.
    for (; before.state() == v1::BACKFILL_STATE_ORDERING; before = world_->Status()) absl::SleepFor(kPoll);
    EXPECT_EQ(before.items_leased(), 0u);
    EXPECT_EQ(before.items_total(), world_->items());
    EXPECT_EQ(before.items_done(), world_->items() - world_->undecodable());
    EXPECT_EQ(before.generation(), kNew);
    EXPECT_EQ(before.state(), v1::BACKFILL_STATE_RUNNING);
    std::set<uint64_t> left;
    // One lease looks at a bounded number of places in the order.
    for (uint64_t looked = 0; looked <= world_->items() && left.size() < world_->undecodable(); looked += 65'536) {
      for (const uint64_t item : LeaseAll()) EXPECT_TRUE(left.insert(item).second) << item << " is leased twice";
    }
    EXPECT_EQ(left.size(), world_->undecodable());
    for (const uint64_t item : left) EXPECT_FALSE(Decodes(item)) << item;
    EXPECT_THAT(LeaseAll(), testing::IsEmpty());
    EXPECT_EQ(world_->Status().items_leased(), left.size());
  }

  void Print(absl::Duration ordering, absl::Duration backfill) const {
    const FlakyWorld& w = *world_;
    std::printf("%llu items, %llu of them never decode; ordered in %.1f s, backfilled in %.1f s\n",
                static_cast<unsigned long long>(w.items()), static_cast<unsigned long long>(w.undecodable()),
                absl::ToDoubleSeconds(ordering), absl::ToDoubleSeconds(backfill));
    std::printf(
        "leases %ld of %ld items, %ld of them found by searches, empty %ld, "
        "of undecodable items only %ld; given back %ld, expired %ld; ",
        w.leases.load(), w.leased_items.load(), w.found_items.load(), w.empty_leases.load(), w.only_undecodable.load(),
        w.given_back.load(), w.expired.load());
    std::printf("refused for overload %ld\ncontents replaced %ld; items left out because of that %ld; ",
                w.overloads.load(), w.replaced.load(), w.outdated.load());
    std::printf("late: items left out %ld, written or there already %ld\n", w.outdated_late.load(),
                w.accepted_late.load());
    for (size_t i = 0; i < kFateCount; ++i) {
      std::printf("  %-16s leases %6ld  refused %6ld\n", kFates[i], w.fates[i].load(), w.refused[i].load());
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<FlakyWorld> world_;
};

TEST_F(FlakyWorkers, BringEveryItemThatDecodesToTheNewGenerationAndLeaveNoLease) {
  const absl::Time begin = absl::Now();
  v1::BackfillStartRequest start;
  start.set_collection(kGallery);
  ASSERT_TRUE(world_->client().StartBackfill(start).ok());
  while (world_->Status().state() == v1::BACKFILL_STATE_ORDERING) absl::SleepFor(kPoll);
  ASSERT_EQ(world_->Status().state(), v1::BACKFILL_STATE_RUNNING);
  const absl::Time ordered = absl::Now();
  std::vector<std::unique_ptr<FlakyWorker>> workers;
  for (int i = 0; i < kWorkers; ++i) workers.push_back(std::make_unique<FlakyWorker>(i, world_.get()));
  {
    std::jthread searcher([&](const std::stop_token& stop) { RunSearcher(stop, world_.get()); });
    std::vector<std::jthread> threads;  // end before it
    for (const auto& worker : workers) threads.emplace_back([&] { worker->Run(); });
    for (uint64_t i = 0; i < kWriters; ++i) threads.emplace_back([&, i] { RunWriter(i, world_.get()); });
  }
  Print(ordered - begin, absl::Now() - ordered);
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(world_->found_items, 0);
  for (size_t i = 0; i < kFateCount; ++i) {
    EXPECT_GT(world_->fates[i], 0) << kFates[i];
    if (i >= static_cast<size_t>(Fate::kWrongDimension)) {
      EXPECT_GT(world_->refused[i], 0) << kFates[i];
    }
  }
  CheckItems();
  CheckLeases();
}

}  // namespace
}  // namespace lightcone
