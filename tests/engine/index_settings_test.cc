// Index settings of collections: what does not fit a dimension is refused before it is stored, what is left open is
// chosen and explained, and a collection that needs too much memory is not served while the others are.
#include <filesystem>
#include <fstream>
#include <thread>

#include "server/engine/collection/meta.h"
#include "store/keys.h"
#include "tests/engine/engine_testing.h"

namespace lightcone::server {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class IndexSettingsOfCollections : public EngineTest {
 protected:
  void Create(const std::string& name, const IndexChange& index) {
    CreateCollectionCall call;
    call.name = name;
    call.index = index;
    const auto made = engine_->CreateCollection(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  void Fill(const std::string& name, uint64_t items) {
    RegisterCall registration;
    registration.collection = name;
    registration.manifest_json = ManifestFor(kDimension);
    ASSERT_TRUE(engine_->RegisterGeneration(registration).ok());
    ActivateCall activation;
    activation.collection = name;
    activation.generation = 1;
    activation.force = true;
    activation.reason = "a test";
    const auto active = engine_->ActivateGeneration(activation);
    ASSERT_TRUE(active.ok()) << active.status();
    UpsertBatch batch;
    batch.collection = name;
    for (uint64_t i = 0; i < items; ++i) {
      batch.items.push_back(ItemOf(Id(i), RandomVector(&random_, kDimension)));
    }
    const auto written = engine_->Upsert(std::move(batch), {});
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_TRUE(engine_->Rebuild(name, {}, /*wait=*/true, "", {}).ok());
  }

  void RestartWith(int64_t memory_bytes_max) {
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.index_memory_bytes_max = memory_bytes_max;
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }

  std::mt19937 random_{3};
};

TEST_F(IndexSettingsOfCollections, ThatDoNotFitTheDimensionAreRefusedWithWhatDoes) {
  IndexChange index;
  index.kind = SealedKind::kHnsw;
  index.codes = RowCodes::kPq;
  CreateCollectionCall call;
  call.name = "c";
  call.index = index;
  EXPECT_TRUE(Fails(engine_->CreateCollection(call), StatusCode::kInvalidArgument, {"'codes' is pq", "hnsw"}));
  index.kind = SealedKind::kIvf;
  index.pq_m = 3;
  Create("c", index);
  RegisterCall registration;
  registration.collection = "c";
  registration.manifest_json = ManifestFor(4);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(registration), StatusCode::kInvalidArgument,
                    {"'pq_m' is 3", "divides 4 numbers: 1, 2, 4"}));
  registration.manifest_json = ManifestFor(6);
  EXPECT_TRUE(engine_->RegisterGeneration(registration).ok());
  IndexChange change;
  change.pq_m = 4;
  EXPECT_TRUE(Fails(engine_->Rebuild("c", change, /*wait=*/true, "", {}), StatusCode::kInvalidArgument,
                    {"'pq_m' is 4", "divides 6 numbers: 1, 2, 3, 6"}));
  EXPECT_EQ(engine_->GetCollection("c")->index.pq_m, 3) << "nothing was stored";
}

TEST_F(IndexSettingsOfCollections, ThatAreLeftOpenAreChosenAndExplained) {
  IndexChange open;
  open.kind = SealedKind::kAuto;
  open.codes = RowCodes::kAuto;
  Create("c", open);
  Fill("c", 50);
  const auto status = engine_->GetCollection("c");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->index.kind, SealedKind::kAuto);
  ASSERT_EQ(status->segments.size(), 1u);
  EXPECT_EQ(status->segments[0].kind, "flat");
  EXPECT_THAT(status->index_choice, HasSubstr("flat with codes float32: segments of up to"));
}

TEST_F(IndexSettingsOfCollections, ACollectionThatNeedsMoreMemoryThanAllowedIsRefusedWhileOthersServe) {
  Create("large", {});
  Create("small", {});
  Fill("large", 200);
  Fill("small", 5);
  RestartWith(2'000);
  EXPECT_TRUE(Fails(engine_->GetCollection("large"), StatusCode::kResourceExhausted,
                    {"'large'", "200 rows", "index.memory_bytes_max allows 2000"}));
  CreateCollectionCall again;
  again.name = "large";
  EXPECT_TRUE(Fails(engine_->CreateCollection(again), StatusCode::kResourceExhausted, {"'large'"}));
  const auto list = engine_->ListCollections();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1u);
  ASSERT_EQ(engine_->RefusedCollections().size(), 1u);
  EXPECT_EQ(engine_->RefusedCollections()[0].first, "large");
  EXPECT_THAT(MessageOf(engine_->RefusedCollections()[0].second), HasSubstr("200 rows"));
  SearchCall call = SearchFor(RandomVector(&random_, kDimension), 3);
  call.collection = "small";
  EXPECT_EQ(Hits(call).size(), 3u);

  RestartWith(1 << 20);
  EXPECT_EQ(engine_->GetCollection("large")->items, 200u);
  EXPECT_EQ(engine_->RefusedCollections().size(), 0u);
}

TEST_F(IndexSettingsOfCollections, ACollectionWithADamagedRecordIsRefusedWhileOthersServe) {
  Create("broken", {});
  Create("whole", {});
  Fill("broken", 5);
  Fill("whole", 5);
  std::string good;
  const std::string key = keys::Generation(1, 1);
  EditStore([&](Store* store, WriteBatch* batch) {
    good = *store->Get(Table::kGenerations, key);
    batch->Put(Table::kGenerations, key, "nonsense");
  });
  Restart();
  EXPECT_TRUE(Fails(engine_->GetCollection("broken"), StatusCode::kDataLoss, {"collection 'broken'"}));
  ASSERT_EQ(engine_->RefusedCollections().size(), 1u);
  EXPECT_EQ(engine_->RefusedCollections()[0].first, "broken");
  SearchCall call = SearchFor(RandomVector(&random_, kDimension), 3);
  call.collection = "whole";
  EXPECT_EQ(Hits(call).size(), 3u);
  EditStore([&](Store*, WriteBatch* batch) { batch->Put(Table::kGenerations, key, good); });
  Restart();
  EXPECT_EQ(engine_->GetCollection("broken")->items, 5u);
  EXPECT_EQ(engine_->RefusedCollections().size(), 0u);
}

TEST_F(IndexSettingsOfCollections, ARebuildThatTheProcessDoesNotEndIsDoneByTheNextStart) {
  IndexChange flat, graph;
  flat.kind = SealedKind::kFlat;
  graph.kind = SealedKind::kHnsw;
  Create("c", flat);
  Fill("c", 50);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine_->Rebuild("c", graph, /*wait=*/true, "request-1", {}).ok());
    EXPECT_EQ(engine_->GetCollection("c")->segments.at(0).kind, "hnsw");
  }
  EditStore([](Store* store, WriteBatch* batch) {
    const std::string key = keys::Collection(1);
    auto record = DecodeCollection(*store->Get(Table::kCollections, key));
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->index.rebuild, 2u) << "one by Fill, one here: a request that is known is none";
    // As a process leaves it that ends right after a call.
    record->index.kind = SealedKind::kFlat;
    ++record->index.rebuild;
    batch->Put(Table::kCollections, key, Encode(*record));
  });
  Restart();
  ASSERT_TRUE(engine_->Rebuild("c", graph, /*wait=*/true, "request-1", {}).ok()) << "that only waits";
  EXPECT_EQ(engine_->GetCollection("c")->segments.at(0).kind, "flat");
}

TEST_F(IndexSettingsOfCollections, AStartReadsNoEmbeddingThatFilesOfTheIndexHold) {
  IndexChange index;
  index.growing_rows_max = 20;
  Create("c", index);
  Register(0);
  Register(1);
  Activate(1);
  Write(BatchOf({ItemOf(Id(100), RandomVector(&random_, kDimension))}, 1));  // stays in memory
  std::vector<UpsertItem> items;
  for (uint64_t i = 0; i < 20; ++i) items.push_back(ItemOf(Id(i), RandomVector(&random_, kDimension)));
  Write(BatchOf(std::move(items), 2));
  const auto sealed = [&] {
    const auto segments = engine_->GetCollection("c")->segments;
    return std::any_of(segments.begin(), segments.end(), [](const SegmentInfo& s) { return s.kind == "hnsw"; });
  };
  while (!sealed()) std::this_thread::yield();
  EditStore([](Store* store, WriteBatch* batch) {
    const keys::Range range = keys::GenerationRange(1, 2);
    const auto rows = store->Scan(Table::kEmbeddings, range.begin, range.end);
    ASSERT_TRUE(rows->Valid());
    batch->Put(Table::kEmbeddings, std::string(rows->key()), "damaged");
  });
  Restart();
  EXPECT_EQ(Hits(SearchFor(RandomVector(&random_, kDimension), 100, 1)).size(), 1u);
  EXPECT_EQ(Hits(SearchFor(RandomVector(&random_, kDimension), 100, 2)).size(), 21u);
}

TEST_F(IndexSettingsOfCollections, WritesOfItemsWaitForTheBuilderAndAreRefusedWhereThatFails) {
  engine_.reset();
  EngineOptions options = OptionsFor(folder_.path());
  options.index_unsealed_bytes_max = 1;
  engine_ = OpenEngine(options);
  ASSERT_NE(engine_, nullptr);
  MakeCollection();
  uint64_t next = 0;
  const auto upsert = [&] {
    return engine_->Upsert(BatchOf({ItemOf(Id(next++), RandomVector(&random_, kDimension))}), {}).status();
  };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(upsert().ok());
  EXPECT_GE(engine_->GetCollection("c")->builds_total, 9) << "each waits for the ones before";
  const std::string segments = folder_.path() + "/index/1/segments";
  std::filesystem::rename(segments, segments + ".real");
  std::ofstream(segments) << "in the way";
  absl::Status status = upsert();
  if (status.ok()) status = upsert();
  EXPECT_TRUE(Fails(status, StatusCode::kResourceExhausted,
                    {"collection 'c'", "index.unsealed_bytes_max is 1", "sealing fails", "/segments/"}));
  EXPECT_THAT(MessageOf(engine_->GetCollection("c")->index_error), HasSubstr("/segments/"));
  EXPECT_TRUE(engine_->Delete("c", {Id(uint64_t{3})}, Durability::kDurable, {}).ok()) << "needs no room";
  std::filesystem::remove(segments);
  std::filesystem::rename(segments + ".real", segments);
  ASSERT_TRUE(engine_->Rebuild("c", {}, /*wait=*/true, "", {}).ok());
  const absl::Status left = engine_->GetCollection("c")->index_error;
  EXPECT_TRUE(left.ok()) << left;
  EXPECT_TRUE(upsert().ok());
  engine_.reset();
  engine_ = OpenEngine(options);
  ASSERT_NE(engine_, nullptr);
  EXPECT_TRUE(upsert().ok());
}

}  // namespace
}  // namespace lightcone::server
