// Snapshots of chosen collections, and single collections that come back into a running server: item by item as they
// were.
#include "base/files.h"
#include "server/engine/core/collection_rows.h"
#include "snapshot/copy.h"
#include "snapshot/restore.h"
#include "snapshot/shelf.h"
#include "store/envelope.h"
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

// Brings the snapshot "all" of one server to the other.
void Upload(Engine& from, Engine& to) {
  const auto archive = from.snapshots().Download("all");
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto upload = to.snapshots().Upload("");
  ASSERT_TRUE(upload.ok()) << upload.status();
  while (true) {
    const auto piece = (*archive)->Next();
    ASSERT_TRUE(piece.ok()) << piece.status();
    if (piece->empty()) break;
    ASSERT_TRUE((*upload)->Append(*piece).ok());
  }
  ASSERT_TRUE((*upload)->Finish().ok());
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
  ASSERT_NO_FATAL_FAILURE(Upload(*engine_, *other));
  const auto restored = Restore(*other, "theirs");
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(ItemsOf(*other, "theirs"), ItemsOf(*engine_, "c"));
  ExpectSameHits(*engine_, "c", *other, "theirs", 2);
}

TEST_F(CollectionRestoreTest, AnEncoderOfAnUploadedSnapshotIsRefusedWhereCallersMayBringNone) {
  MakeSmallWorld();
  ASSERT_TRUE(engine_->snapshots().Delete("all").ok());
  engine_.reset();
  {
    // As if the encoder had come with its registration.
    const auto store = OpenStore(folder_.path() + "/store", OptionsFor(folder_.path()).store);
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string key = keys::Generation(1, 1);
    auto record = DecodeGeneration((*store)->Get(Table::kGenerations, key).value_or(""));
    ASSERT_TRUE(record.ok()) << record.status();
    record->has_encoder = true;
    WriteBatch batch;
    batch.Put(Table::kGenerations, key, Encode(*record));
    ASSERT_TRUE((*store)->Write(batch, Durability::kDurable).ok());
  }
  fs::create_directories(folder_.path() + "/encoders/1");
  ASSERT_TRUE(WriteFileAtomically(folder_.path() + "/encoders/1/1.pt", "code").ok());
  EngineOptions options = OptionsFor(folder_.path());
  options.encoder_uploads = false;
  engine_ = OpenEngine(options);
  ASSERT_NE(engine_, nullptr);
  Make({"all"});
  EXPECT_TRUE(Restore(*engine_, "copy").ok()) << "the server made this snapshot itself";

  options.data_folder = folder_.path() + "-other";
  auto other = OpenEngine(options);
  ASSERT_NE(other, nullptr);
  ASSERT_NO_FATAL_FAILURE(Upload(*engine_, *other));
  for (const char* const when : {"at once", "after a restart"}) {
    EXPECT_TRUE(Fails(Restore(*other, "theirs"), Code::kFailedPrecondition, {"generation 1", "encoder.uploads"}))
        << when;
    EXPECT_TRUE(other->ListCollections()->empty()) << when;
    other.reset();
    other = OpenEngine(options);
    ASSERT_NE(other, nullptr);
  }
  const std::string copies = options.data_folder + "/copies";
  ASSERT_TRUE(CopySnapshot(options.data_folder + "/snapshots/all", copies).ok());
  EXPECT_TRUE(IsUploadedSnapshot(copies + "/all")) << "a copy is trusted no more than its source";
  ASSERT_TRUE(CopySnapshot(folder_.path() + "/snapshots/all", copies + "/own").ok());
  EXPECT_FALSE(IsUploadedSnapshot(copies + "/own/all"));
  other.reset();
  options.encoder_uploads = true;
  other = OpenEngine(options);
  ASSERT_NE(other, nullptr);
  const auto restored = Restore(*other, "theirs");
  EXPECT_TRUE(restored.ok()) << restored.status();
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
  CallContext limited;
  limited.sees = [](const std::string&) { return true; };
  const auto hidden = snapshots.RestoreCollection({.snapshot = "none", .collection = "c", .name = "d"}, limited);
  EXPECT_TRUE(Fails(hidden, Code::kNotFound, {"none"}));
  EXPECT_EQ(MessageOf(hidden.status()).find("all"), std::string::npos) << "it names no other snapshot";
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

TEST_F(CollectionRestoreTest, ASnapshotOfARestoredCopyDoesNotNameWhatItWasRestoredFrom) {
  MakeSmallWorld();
  CreateCollectionCall source;
  source.name = "Hd6Vb1sQx8NcUe3JyRfA";
  ASSERT_TRUE(engine_->CreateCollection(source).ok());
  Make({kMarker});
  const RestoreCollectionCall call = {
      .request_id = "request-1", .snapshot = kMarker, .collection = source.name, .name = "copy"};
  ASSERT_TRUE(engine_->snapshots().RestoreCollection(call, {}).ok());
  EXPECT_TRUE(HasText(Make({"everything"}).folder, kMarker)) << "else this test could not fail";
  const SnapshotStatus part = Make({"part", "", {"copy"}});
  ASSERT_EQ(part.manifest.collections.size(), 1u);
  EXPECT_FALSE(HasText(part.folder, kMarker));
  EXPECT_FALSE(HasText(part.folder, source.name));
  const auto repeated = engine_->snapshots().RestoreCollection(call, {});
  ASSERT_TRUE(repeated.ok()) << repeated.status() << ": the server itself knows the request";
  EXPECT_EQ(repeated->name, "copy");
}

TEST_F(CollectionRestoreTest, ASnapshotOfChosenCollectionsCopiesTheStoreOnTheDataDiskAndNoOtherEncoder) {
  MakeSmallWorld();
  CreateCollectionCall other;
  other.name = "other";
  ASSERT_TRUE(engine_->CreateCollection(other).ok());
  for (const char* const number : {"1", "2"}) {
    const std::string folder = StrCat(folder_.path(), "/encoders/", number);
    fs::create_directories(folder);
    ASSERT_TRUE(WriteFileAtomically(folder + "/1.pt", "code").ok());
  }
  const std::string work = folder_.path() + "/snapshot-store", partial = folder_.path() + "/snapshots/.part.partial";
  bool at_work = false, own = false, foreign = false, whole = false;
  CallContext context;
  context.cancelled = [&] {
    at_work = at_work || fs::exists(work);
    own = own || fs::exists(partial + "/data/encoders/1/1.pt");
    foreign = foreign || fs::exists(partial + "/data/encoders/2");
    whole = whole || fs::exists(partial + "/data-whole");
    return false;
  };
  const auto made = engine_->snapshots().Create({"part", "", {"c"}}, context);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(at_work);
  EXPECT_TRUE(own);
  EXPECT_FALSE(foreign);
  EXPECT_FALSE(whole);
  EXPECT_FALSE(fs::exists(work)) << "it goes with the call";
  EXPECT_TRUE(engine_->snapshots().Verify("part", {}).ok());
  // A kill may leave a checkpoint that was not whole.
  fs::create_directories(work + "/store.partial/left");
  const auto again = engine_->snapshots().Create({"again", "", {"c"}}, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(fs::exists(work));
  fs::create_directories(work + "/store.partial/left");
  ASSERT_TRUE(engine_->snapshots().Start({}).ok());
  EXPECT_FALSE(fs::exists(work)) << "a start removes what a kill has left";
}

TEST_F(CollectionRestoreTest, AStoreOfChosenCollectionsLacksNoRowOfTheServerInSilence) {
  const std::string place = folder_.path() + "-other";
  fs::create_directories(place);
  const StoreOptions options = OptionsFor(place).store;
  const auto from = OpenStore(place + "/from", options);
  ASSERT_TRUE(from.ok()) << from.status();
  const auto put = [&](const std::string& key, const std::optional<std::string>& value) {
    WriteBatch batch;
    if (value) {
      batch.Put(Table::kMeta, key, *value);
    } else {
      batch.Delete(Table::kMeta, key);
    }
    const absl::Status written = (*from)->Write(batch, Durability::kDurable);
    EXPECT_TRUE(written.ok()) << written;
  };
  int count = 0;
  const auto choose = [&] {
    const auto check = [](uint64_t) { return absl::OkStatus(); };
    return WriteChosenStore(**from, {7}, StrCat(place, "/to-", ++count), options, check);
  };
  CollectionRecord record;
  record.name = "c";
  WriteBatch batch;
  batch.Put(Table::kCollections, keys::Collection(7), Encode(record));
  ASSERT_TRUE((*from)->Write(batch, Durability::kDurable).ok());
  put(keys::CollectionName("c"), "7");
  put(keys::Meta(RequestName("once")), "no record");
  const absl::Status chosen = choose();
  ASSERT_TRUE(chosen.ok()) << "the damaged memory of a request is left out: " << chosen;
  {
    const auto to = OpenStore(place + "/to-1", options);
    ASSERT_TRUE(to.ok()) << to.status();
    EXPECT_EQ((*to)->Get(Table::kMeta, keys::Meta(kNextCollectionName)).value_or("missing"), "8");
    EXPECT_EQ((*to)->Get(Table::kMeta, keys::CollectionName("c")).value_or("missing"), "7");
  }
  for (const std::string& key : {keys::Meta(kNextCollectionName), keys::CollectionName("d")}) {
    put(key, "no number");
    EXPECT_TRUE(Fails(choose(), Code::kDataLoss, {Place(Table::kMeta, key)}));
    put(key, std::nullopt);
  }
  EXPECT_TRUE(choose().ok());
}

}  // namespace
}  // namespace lightcone::server
