// Snapshots of chosen collections, and single collections that come back into a running server: item by item as they
// were.
#include "base/files.h"
#include "snapshot/restore.h"
#include "tests/engine/restore_world.h"

namespace lightcone::server {
namespace {

constexpr char kMarker[] = "q7Zk3WmX0vTpLr9Ybn4H";  // a text that nothing compresses

// Whether a file below the folder has the text in it.
bool HasText(const std::string& folder, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const auto bytes = ReadFile(entry.path().string());
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (bytes.ok() && bytes->find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_F(CollectionRestoreTest, WhatWasDroppedComesBackUnderItsNameAsItWas) {
  MakeWorld();
  Put(item_);
  Activate(2);
  ASSERT_TRUE(engine_->SetAlias("other", "c", "").ok());
  IndexPayloadCall index;
  index.collection = "c";
  index.add = {{"n", PayloadType::kInteger}};
  index.wait = true;
  ASSERT_TRUE(engine_->IndexPayload(index, {}).ok());
  PutProbesCall probes{"", "c", "daily", "", {}};
  probes.probes.resize(1);
  probes.probes[0].vectors = {{1, old_rows_[3]}};
  probes.probes[0].relevant = {Id(3)};
  ASSERT_TRUE(engine_->PutProbes(probes).ok());
  ASSERT_TRUE(engine_->StartBackfill({"", "c", "", 0}).ok());
  LeaseAnswer lease;
  while (lease.items.empty()) {
    const auto leased = engine_->LeaseBackfill({"c", 20, absl::Hours(1), ""});
    ASSERT_TRUE(leased.ok()) << leased.status();
    lease = *leased;
  }
  std::vector<UpsertItem> embedded;
  for (const LeasedItem& item : lease.items) embedded.push_back(ItemOf(item.id, RandomVector(&random_, 6, 0.6f)));
  Write(BatchOf(std::move(embedded), 2, /*same_content=*/true));

  const auto items = ItemsOf(*engine_, "c");
  const auto before = engine_->GetCollection("c");
  const auto adapters = engine_->ListAdapters("c");
  const auto audit = engine_->ListAudit("c", 100);
  const auto left = engine_->GetBackfill("c")->items_left;
  Make({"all"});
  ASSERT_TRUE(engine_->DropCollection("c", "").ok());
  const auto restored = Restore(*engine_, "");
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->name, "c");
  EXPECT_EQ(restored->items, kOldRows + kNewRows);
  EXPECT_EQ(restored->sequence, before->sequence);
  EXPECT_EQ(restored->active_generation, 2u);
  for (const char* const when : {"at once", "after a restart"}) {
    EXPECT_EQ(ItemsOf(*engine_, "c"), items) << when;
    EXPECT_EQ(engine_->GetCollection("c")->items_by_generation, before->items_by_generation) << when;
    EXPECT_EQ(engine_->ListGenerations("c")->size(), 2u) << when;
    ASSERT_EQ(engine_->ListAdapters("c")->size(), 1u) << when;
    EXPECT_EQ(engine_->ListAdapters("c")->front().version, adapters->front().version) << when;
    EXPECT_EQ(engine_->ListProbes("c")->size(), 1u) << when;
    EXPECT_EQ(engine_->ListAudit("c", 100)->size(), audit->size()) << when;
    EXPECT_EQ(engine_->GetCollection("c")->payload_indexes.size(), 1u) << when;
    EXPECT_EQ(engine_->GetBackfill("c")->items_left, left) << when;
    EXPECT_TRUE(Fails(engine_->GetCollection("other"), Code::kNotFound, {"other"})) << "aliases stay behind";
    const auto again = engine_->snapshots().Verify("all", {});
    EXPECT_TRUE(again.ok()) << "the snapshot is as it was: " << again.status();
    if (HasFailure()) return;
    Restart();
  }
  ExpectNoStrays("after a drop and a restore");
}

TEST_F(CollectionRestoreTest, WritesToACopyAndToItsOriginalDoNotMeet) {
  MakeWorld();
  Put(item_);
  Make({"all"});
  ASSERT_TRUE(Restore(*engine_, "copy").ok());
  const auto original = ItemsOf(*engine_, "c");
  EXPECT_EQ(ItemsOf(*engine_, "copy"), original);
  ExpectSameHits(*engine_, "c", *engine_, "copy", 2);

  UpsertBatch batch = BatchOf({ItemOf(Id(5), old_rows_[6]), ItemOf(Id(9'999), old_rows_[7])}, 1);
  batch.collection = "copy";
  Write(std::move(batch));
  ASSERT_TRUE(engine_->Delete("copy", {Id(6)}, Durability::kDurable, {}).ok());
  EXPECT_EQ(ItemsOf(*engine_, "c"), original);
  const auto copy = ItemsOf(*engine_, "copy");
  EXPECT_NE(copy, original);
  Write(BatchOf({ItemOf(Id(4), old_rows_[9])}, 1));
  EXPECT_EQ(ItemsOf(*engine_, "copy"), copy);
  Restart();
  EXPECT_EQ(ItemsOf(*engine_, "copy"), copy);
  EXPECT_EQ(engine_->GetCollection("copy")->items, kOldRows + kNewRows);
  ASSERT_TRUE(engine_->DropCollection("copy", "").ok());
  EXPECT_EQ(ItemsOf(*engine_, "c").size(), original.size());
  ExpectNoStrays("after the drop of the copy");
}

TEST_F(CollectionRestoreTest, AnUploadedSnapshotGivesItsCollectionToAnotherServer) {
  MakeWorld();
  Put(item_);
  Make({"all", "", {"c"}});
  const auto other = OpenEngine(folder_.path() + "-other");
  ASSERT_NE(other, nullptr);
  const auto archive = engine_->snapshots().Download("all");
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto upload = other->snapshots().Upload("");
  ASSERT_TRUE(upload.ok()) << upload.status();
  while (true) {
    const auto piece = (*archive)->Next();
    ASSERT_TRUE(piece.ok()) << piece.status();
    if (piece->empty()) break;
    ASSERT_TRUE((*upload)->Append(*piece).ok());
  }
  ASSERT_TRUE((*upload)->Finish().ok());
  upload->reset();
  const auto restored = Restore(*other, "theirs");
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(ItemsOf(*other, "theirs"), ItemsOf(*engine_, "c"));
  ExpectSameHits(*engine_, "c", *other, "theirs", 2);
}

TEST_F(CollectionRestoreTest, ItemsWhoseTimeHasComeMeanwhileAreNotSeen) {
  EngineOptions options = OptionsFor(folder_.path());
  options.clock = {[this] { return absl::FromUnixMillis(now_ms_.load()); },
                   [this] { return absl::Milliseconds(now_ms_.load()); }};
  engine_.reset();
  engine_ = OpenEngine(options);
  ASSERT_NE(engine_, nullptr);
  MakeCollection();
  std::vector<UpsertItem> items;
  for (uint64_t id = 1; id <= 9; ++id) {
    items.push_back(ItemOf(Id(id), {0.1f * static_cast<float>(id), 0, 0, 0}));
    items.back().ttl_ms = id <= 5 ? 2'000 : 60'000;
  }
  Write(BatchOf(std::move(items)));
  Make({"all"});
  now_ms_ += 2'000;
  const auto restored = Restore(*engine_, "copy");
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(ItemsOf(*engine_, "copy"), ItemsOf(*engine_, "c"));
  SearchCall call = SearchFor({0, 0, 0, 0}, 100);
  call.collection = "copy";
  EXPECT_EQ(Hits(call).size(), 4u);
  now_ms_ += 60'000;
  EXPECT_THAT(ItemsOf(*engine_, "copy"), ::testing::IsEmpty());
  EXPECT_THAT(Hits(call), ::testing::IsEmpty());
}

TEST_F(CollectionRestoreTest, NamesInUseAndUnknownOnesAreRefused) {
  MakeSmallWorld();
  ASSERT_TRUE(engine_->SetAlias("alias", "c", "").ok());
  Snapshots& snapshots = engine_->snapshots();
  EXPECT_TRUE(Fails(Restore(*engine_, ""), Code::kAlreadyExists, {"'c'"}));
  EXPECT_TRUE(Fails(Restore(*engine_, "alias"), Code::kAlreadyExists, {"'alias'"}));
  EXPECT_TRUE(Fails(Restore(*engine_, "a/b"), Code::kInvalidArgument, {"name", "a/b"}));
  EXPECT_TRUE(Fails(snapshots.RestoreCollection({.snapshot = "none", .collection = "c", .name = "d"}, {}),
                    Code::kNotFound, {"none", "all"}));
  EXPECT_TRUE(Fails(snapshots.RestoreCollection({.snapshot = "all", .collection = "d"}, {}), Code::kNotFound, {"'d'"}));
  EXPECT_TRUE(Fails(snapshots.Create({"part", "", {"c", "d"}}, {}), Code::kNotFound, {"'d'"}));
  CallContext over;
  over.deadline = absl::InfinitePast();
  EXPECT_TRUE(Fails(snapshots.RestoreCollection({.snapshot = "all", .collection = "c", .name = "d"}, over),
                    Code::kCancelled, {}));
  EXPECT_EQ(engine_->ListCollections()->size(), 1u);
  ExpectNoStrays("nothing was restored");
}

TEST_F(CollectionRestoreTest, TheSameRequestAgainGivesTheFirstAnswer) {
  MakeSmallWorld();
  const auto first = Restore(*engine_, "copy", "once");
  ASSERT_TRUE(first.ok()) << first.status();
  UpsertBatch batch = BatchOf({ItemOf(Id(999), {0, 0, 0, 1})});
  batch.collection = "copy";
  Write(std::move(batch));
  ASSERT_TRUE(engine_->snapshots().Delete("all").ok());
  Restart();
  const auto again = Restore(*engine_, "copy", "once");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->name, "copy");
  EXPECT_EQ(again->items, first->items);
  EXPECT_EQ(again->sequence, first->sequence);
  EXPECT_EQ(again->active_generation, first->active_generation);
  EXPECT_TRUE(Fails(Restore(*engine_, "another", "once"), Code::kAlreadyExists, {"request_id", "once"}));
  ASSERT_TRUE(engine_->DropCollection("copy", "").ok());
  EXPECT_TRUE(Fails(Restore(*engine_, "copy", "once"), Code::kNotFound, {"dropped"}));
}

TEST_F(CollectionRestoreTest, ADamagedFileIsNamedBeforeAnythingIsWritten) {
  MakeSmallWorld();
  std::string table;
  for (const auto& entry : fs::directory_iterator(folder_.path() + "/snapshots/all/data/store")) {
    if (entry.path().extension() == ".sst") table = entry.path().string();
  }
  ASSERT_FALSE(table.empty());
  std::string bytes = ReadFile(table).value_or("");
  ASSERT_FALSE(bytes.empty());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(table, bytes).ok());  // a new file: the server's own one is another from here on
  EXPECT_TRUE(Fails(Restore(*engine_, "copy"), Code::kDataLoss, {fs::path(table).filename().string()}));
  EXPECT_EQ(engine_->snapshots().Figures().failures_total, 1u);
  const auto items = ItemsOf(*engine_, "c");
  EXPECT_TRUE(Fails(engine_->GetCollection("copy"), Code::kNotFound, {"copy"}));
  Restart();
  EXPECT_EQ(ItemsOf(*engine_, "c"), items);
  ExpectNoStrays("nothing was written");
}

TEST_F(CollectionRestoreTest, ASnapshotOfChosenCollectionsHasNoByteOfTheOthers) {
  MakeSmallWorld();
  CreateCollectionCall secret;
  secret.name = "secret";
  secret.request_id = StrCat("request-", kMarker);
  ASSERT_TRUE(engine_->CreateCollection(secret).ok());
  RegisterCall generation;
  generation.collection = "secret";
  generation.manifest_json = ManifestFor(kDimension);
  ASSERT_TRUE(engine_->RegisterGeneration(generation).ok());
  ActivateCall activate;
  activate.collection = "secret";
  activate.generation = 1;
  ASSERT_TRUE(engine_->ActivateGeneration(activate).ok());
  ASSERT_TRUE(engine_->SetAlias(StrCat("alias-", kMarker), "secret", "").ok());
  UpsertBatch batch;
  batch.collection = "secret";
  batch.generation = 1;
  for (uint64_t id = 1; id <= 30; ++id) {
    batch.items.push_back(ItemOf(ItemId{StrCat(kMarker, "-", id)}, RandomVector(&random_, kDimension),
                                 StrCat("{\"text\":\"", kMarker, id, "\"}")));
  }
  Write(std::move(batch));
  ASSERT_TRUE(engine_->SetAlias("mine", "c", "").ok());

  const SnapshotStatus all = Make({"everything"});
  EXPECT_TRUE(HasText(all.folder, kMarker)) << "else this test could not fail";
  const SnapshotStatus part = Make({"part", "", {"mine"}});
  EXPECT_FALSE(HasText(part.folder, kMarker));
  EXPECT_FALSE(HasText(part.folder, "secret"));
  ASSERT_EQ(part.manifest.collections.size(), 1u);
  EXPECT_EQ(part.manifest.collections[0].name, "c");
  EXPECT_EQ(part.manifest.collections[0].items, 58u);
  EXPECT_TRUE(engine_->snapshots().Verify("part", {}).ok());

  const auto items = ItemsOf(*engine_, "c"), secrets = ItemsOf(*engine_, "secret");
  const std::string data = folder_.path() + "-other/data";
  const auto restored = RestoreSnapshot(part.folder, data);
  ASSERT_TRUE(restored.ok()) << restored.status();
  {
    const auto other = OpenEngine(data);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->ListCollections()->size(), 1u);
    EXPECT_EQ(ItemsOf(*other, "c"), items);
    EXPECT_EQ(other->GetCollection("mine")->name, "c") << "aliases of what was chosen stay";
    EXPECT_EQ(other->GetCollection("c")->rebuilds_total, 0);
    secret.name = "next";
    secret.request_id.clear();
    EXPECT_TRUE(other->CreateCollection(secret).ok());
  }
  EXPECT_THAT(StraysIn(data), ::testing::IsEmpty());
  Restart();
  EXPECT_EQ(ItemsOf(*engine_, "c"), items) << "the server's own data is as it was";
  EXPECT_EQ(ItemsOf(*engine_, "secret"), secrets);
  ExpectNoStrays("two collections");
}

}  // namespace
}  // namespace lightcone::server
