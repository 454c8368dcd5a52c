// What a store does when its folder, its values or its disk are not as they should be.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/status.h"
#include "rocksdb/db.h"
#include "store/envelope.h"
#include "store/keys.h"
#include "store/rocksdb_store.h"
#include "tests/store/faulty_disk.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

StoreOptions SmallOptions() {
  StoreOptions options;
  options.memory_bytes = 16 << 20;
  return options;
}

absl::Status OpenFails(const std::string& folder) {
  auto store = OpenStore(folder, SmallOptions());
  EXPECT_FALSE(store.ok());
  return store.status();
}

absl::Status PutWithJob(Store* store, const std::string& key, Durability durability = Durability::kDurable) {
  WriteBatch batch;
  batch.Put(Table::kItems, key, "value of " + key);
  batch.Put(Table::kJobs, key, "job of " + key);
  return store->Write(batch, durability);
}

// Writes below the store: raw bytes under a key of a table.
void PutRaw(const std::string& folder, const std::string& table, const std::string& key,
            const std::function<std::string(std::string)>& change) {
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, folder, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open({}, folder, families, &handles, &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    if (handle->GetName() == table) {
      std::string value;
      ASSERT_TRUE(db->Get({}, handle, key, &value).ok());
      value = change(value);
      ASSERT_TRUE(value.empty() ? db->Delete({}, handle, key).ok() : db->Put({}, handle, key, value).ok());
    }
    ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
}

std::string FlipLastBit(std::string value) {
  value.back() = static_cast<char>(value.back() ^ 1);
  return value;
}

TEST(StoreFolder, AForeignFolderIsRefusedAndLeftAsItWas) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "holiday.jpg", "x").ok());
  const absl::Status refused = OpenFails(folder / "");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(refused), HasSubstr("is not a Lightcone store: it holds 'holiday.jpg'"));
  EXPECT_THAT(MessageOf(refused), HasSubstr("allowed: a missing or empty folder, or a store"));
  EXPECT_FALSE(std::filesystem::exists(folder / "LIGHTCONE"));
  EXPECT_FALSE(std::filesystem::exists(folder / "CURRENT"));
}

TEST(StoreFolder, AFileInPlaceOfTheFolderIsRefused) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "file", "x").ok());
  EXPECT_THAT(MessageOf(OpenFails(folder / "file")), HasSubstr("file"));
  EXPECT_EQ(OpenFails("").code(), absl::StatusCode::kInvalidArgument);
}

TEST(StoreFolder, AMarkerThatIsNotOursIsRefused) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "LIGHTCONE", "something else").ok());
  const absl::Status refused = OpenFails(folder / "");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(refused), HasSubstr("its file LIGHTCONE is not of a Lightcone store"));
  ASSERT_TRUE(WriteFileAtomically(folder / "LIGHTCONE", "lightcone store format 1x\n").ok());
  EXPECT_THAT(MessageOf(OpenFails(folder / "")), HasSubstr("its file LIGHTCONE is not of a Lightcone store"));
}

TEST(StoreFolder, ACreationThatWasInterruptedIsFinished) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "LIGHTCONE.tmp", "lightco").ok());
  EXPECT_TRUE(OpenStore(folder / "", SmallOptions()).ok());
  EXPECT_TRUE(OpenStore(folder / "", SmallOptions()).ok());
}

TEST(StoreFolder, ANewerFormatSaysWhichVersionIsNeeded) {
  TemporaryFolder folder;
  ASSERT_TRUE(OpenStore(folder / "store", SmallOptions()).ok());
  ASSERT_TRUE(WriteFileAtomically(folder / "store/LIGHTCONE", "lightcone store format 9\n").ok());
  const absl::Status refused = OpenFails(folder / "store");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(refused), HasSubstr("has format 9; this program reads format 1"));
  EXPECT_THAT(MessageOf(refused), HasSubstr("a version of Lightcone that reads store format 9"));
}

TEST(StoreFolder, ANewerFormatInTheMetaTableIsRefusedToo) {
  TemporaryFolder folder;
  {
    auto store = OpenStore(folder / "store", SmallOptions());
    ASSERT_TRUE(store.ok());
    WriteBatch batch;
    batch.Put(Table::kMeta, keys::Meta("format"), "2");
    ASSERT_TRUE((*store)->Write(batch, Durability::kDurable).ok());
  }
  const absl::Status refused = OpenFails(folder / "store");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(refused), HasSubstr("has format 2; this program reads format 1"));
}

TEST(StoreFolder, AMissingOrDamagedFormatOfAFullStoreIsDataLoss) {
  TemporaryFolder folder;
  {
    auto store = OpenStore(folder / "store", SmallOptions());
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(PutWithJob(store->get(), "a").ok());
  }
  PutRaw(folder / "store", "meta", keys::Meta("format"), FlipLastBit);
  const absl::Status damaged = OpenFails(folder / "store");
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(damaged), HasSubstr("table 'meta' key 'm/format': damaged value"));
  PutRaw(folder / "store", "meta", keys::Meta("format"), [](std::string) { return std::string(); });
  const absl::Status missing = OpenFails(folder / "store");
  EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(missing), HasSubstr("key 'm/format' is missing"));
}

TEST(StoreFolder, ASecondOpenIsUnavailableAndNamesTheFolder) {
  TemporaryFolder folder;
  auto first = OpenStore(folder / "store", SmallOptions());
  ASSERT_TRUE(first.ok());
  const absl::Status second = OpenFails(folder / "store");
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(second), HasSubstr(StrCat("store '", folder / "store", "' is in use")));
  EXPECT_TRUE(PutWithJob(first->get(), "still works").ok());
}

TEST(StoreDamage, ADamagedValueIsNamedAndNeverServed) {
  TemporaryFolder folder;
  {
    auto store = OpenStore(folder / "store", SmallOptions());
    ASSERT_TRUE(store.ok());
    for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(PutWithJob(store->get(), key).ok());
  }
  PutRaw(folder / "store", "items", "b", FlipLastBit);
  auto store = OpenStore(folder / "store", SmallOptions());
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const auto expect_damage = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(MessageOf(status), HasSubstr("table 'items' key 'b': damaged value"));
  };
  expect_damage((*store)->Get(Table::kItems, "b").status());
  const std::vector<std::string> keys = {"a", "b", "c"};
  const auto found = (*store)->MultiGet(Table::kItems, keys);
  EXPECT_TRUE(found[0].ok());
  expect_damage(found[1].status());
  EXPECT_TRUE(found[2].ok());
  auto rows = (*store)->Scan(Table::kItems, "", "");
  ASSERT_TRUE(rows->Valid());
  rows->Next();
  EXPECT_FALSE(rows->Valid());
  expect_damage(rows->status());
  EXPECT_EQ(rows->SkipDamaged(), "b");
  ASSERT_TRUE(rows->Valid());
  EXPECT_EQ(rows->key(), "c");
  EXPECT_FALSE(rows->SkipDamaged().has_value()) << "nothing is damaged there";
  rows->Next();
  EXPECT_FALSE(rows->Valid());
  EXPECT_TRUE(rows->status().ok());
  EXPECT_FALSE(rows->SkipDamaged().has_value());
  WriteBatch batch;
  batch.Expect(Table::kItems, "b", "value of b");
  batch.Put(Table::kItems, "c", "new");
  expect_damage((*store)->Write(batch, Durability::kDurable));
  EXPECT_EQ(*(*store)->Get(Table::kItems, "c"), "value of c");
  ASSERT_TRUE(PutWithJob(store->get(), "b").ok()) << "a new write heals the key";
  EXPECT_TRUE((*store)->Get(Table::kItems, "b").ok());
}

// Flips one byte in the middle of the newest file with this extension.
void FlipByte(const std::string& folder, const std::string& extension) {
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension && entry.file_size() > 0 && entry.path().string() > path) {
      path = entry.path().string();
    }
  }
  ASSERT_FALSE(path.empty());
  std::string bytes = *ReadFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
}

TEST(StoreDamage, ADamagedLogRefusesToOpenUnlessToldToDropIt) {
  TemporaryFolder folder;
  {
    auto store = OpenStore(folder / "store", SmallOptions());
    ASSERT_TRUE(store.ok());
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(PutWithJob(store->get(), StrCat("k", i)).ok());
  }
  FlipByte(folder / "store", ".log");
  const absl::Status damaged = OpenFails(folder / "store");
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(damaged), HasSubstr("it is damaged"));
  EXPECT_THAT(MessageOf(damaged), HasSubstr("its log can be read up to sequence "));
  EXPECT_THAT(MessageOf(damaged), HasSubstr(", and writes up to 202 were acknowledged as durable"));
  StoreOptions options = SmallOptions();
  options.accept_damage = true;
  auto store = OpenStore(folder / "store", options);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_TRUE((*store)->Get(Table::kItems, "k0").ok());
  EXPECT_FALSE((*store)->Get(Table::kItems, "k99").ok());
}

// The newest log of the folder that holds anything.
std::string NewestLog(const std::string& folder) {
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0 && entry.path().string() > path) {
      path = entry.path().string();
    }
  }
  return path;
}

// What a power loss leaves of an open store, had every page reached the disk.
class StoreAfterPowerLoss : public testing::Test {
 protected:
  void SetUp() override { Open(folder_ / "store"); }
  void Open(const std::string& folder) {
    store_.reset();
    auto store = OpenStore(folder, SmallOptions());
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(*store);
  }
  void Copy() { std::filesystem::copy(folder_ / "store", folder_ / "copy", std::filesystem::copy_options::recursive); }
  void PutLarge(const std::string& key, Durability durability) {
    WriteBatch batch;
    batch.Put(Table::kItems, key, std::string(20'000, 'x'));
    ASSERT_TRUE(store_->Write(batch, durability).ok());
  }
  // As many zeros, ending so many bytes before the end of the copy's newest log.
  void Zero(size_t bytes, size_t before_end) {
    const std::string path = NewestLog(folder_ / "copy");
    std::string log = *ReadFile(path);
    ASSERT_GT(log.size(), bytes + before_end);
    log.replace(log.size() - before_end - bytes, bytes, bytes, '\0');
    ASSERT_TRUE(WriteFileAtomically(path, log).ok());
  }
  bool Has(const std::string& key) { return store_->Get(Table::kItems, key).ok(); }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreAfterPowerLoss, ZerosAmongWhatWasNotSyncedAreCutOff) {
  PutLarge("synced", Durability::kDurable);
  PutLarge("in the cache", Durability::kProcess);
  PutLarge("behind it", Durability::kProcess);
  Copy();
  Zero(4096, 30'000);
  Open(folder_ / "copy");
  EXPECT_TRUE(Has("synced"));
  EXPECT_FALSE(Has("in the cache"));
  EXPECT_FALSE(Has("behind it"));
  PutLarge("later", Durability::kDurable);
  Open(folder_ / "copy");
  EXPECT_TRUE(Has("synced"));
  EXPECT_TRUE(Has("later"));
}

TEST_F(StoreAfterPowerLoss, ZerosAmongWhatWasSyncedRefuse) {
  PutLarge("synced", Durability::kProcess);
  PutLarge("in the cache", Durability::kProcess);
  ASSERT_TRUE(store_->Sync().ok());
  Copy();
  Zero(4096, 30'000);
  const absl::Status refused = OpenFails(folder_ / "copy");
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(refused), HasSubstr("its log can be read up to sequence 2"));
  EXPECT_THAT(MessageOf(refused), HasSubstr("writes up to 4 were acknowledged as durable"));
}

TEST_F(StoreAfterPowerLoss, ALogThatEndsBetweenTwoRecordsRefusesWhereTheLostOneWasSynced) {
  PutLarge("first", Durability::kDurable);
  const auto end_of_first = std::filesystem::file_size(NewestLog(folder_ / "store"));
  PutLarge("second", Durability::kDurable);
  Copy();
  std::filesystem::resize_file(NewestLog(folder_ / "copy"), end_of_first);
  for (int start = 0; start < 2; ++start) {
    const absl::Status refused = OpenFails(folder_ / "copy");
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(MessageOf(refused), HasSubstr("the log ends early"));
    EXPECT_THAT(MessageOf(refused), HasSubstr("were acknowledged as durable"));
  }
}

TEST_F(StoreAfterPowerLoss, ALogOfNothingButWhatWasNotSyncedIsCutAsWell) {
  PutLarge("synced", Durability::kDurable);
  Open(folder_ / "store");  // what the log held is in tables now
  PutLarge("in the cache", Durability::kProcess);
  Copy();
  Zero(4096, 10'000);
  Open(folder_ / "copy");
  EXPECT_TRUE(Has("synced"));
  EXPECT_FALSE(Has("in the cache"));
}

TEST_F(StoreAfterPowerLoss, WithoutASyncedPointDamageRefusesAsItAlwaysDid) {
  PutLarge("in the cache", Durability::kProcess);
  Copy();
  Zero(4096, 10'000);
  ASSERT_TRUE(WriteFileAtomically(folder_ / "copy/SYNCED", "LCSYNCED and no more").ok());
  EXPECT_THAT(MessageOf(OpenFails(folder_ / "copy")), HasSubstr("it is damaged"));
}

// A log may begin before the one before it was synced. What it holds must not outlive what that one lost.
TEST_F(StoreAfterPowerLoss, AGapBetweenTwoLogsIsTheEndOfWhatIsRead) {
  PutLarge("synced", Durability::kDurable);
  store_.reset();
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, folder_ / "store", &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open({}, folder_ / "store", families, &handles, &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  const auto items = *std::find_if(handles.begin(), handles.end(), [](auto* h) { return h->GetName() == "items"; });
  const auto put = [&](const std::string& key) {
    const auto head = EnvelopeOf(Table::kItems, key, "v");
    ASSERT_TRUE(db->Put({}, items, key, std::string(head.data(), head.size()) + "v").ok());
  };
  put("kept");
  const std::string first = NewestLog(folder_ / "store");
  const uintmax_t bytes = std::filesystem::file_size(first);
  put("lost");
  ASSERT_TRUE(db->PauseBackgroundWork().ok());
  rocksdb::FlushOptions flush;
  flush.wait = false;
  ASSERT_TRUE(db->Flush(flush, items).ok());
  put("behind the gap");
  ASSERT_NE(NewestLog(folder_ / "store"), first);
  Copy();
  ASSERT_TRUE(db->ContinueBackgroundWork().ok());
  for (rocksdb::ColumnFamilyHandle* handle : handles) ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  std::filesystem::resize_file(folder_ / "copy" / std::filesystem::path(first).filename(), bytes);
  Open(folder_ / "copy");
  EXPECT_TRUE(Has("synced"));
  EXPECT_TRUE(Has("kept"));
  EXPECT_FALSE(Has("lost"));
  EXPECT_FALSE(Has("behind the gap"));
}

class StoreDisk : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    OpenOnly();
    ASSERT_TRUE(PutWithJob(store_.get(), "before").ok());
  }
  void OpenOnly() {
    store_.reset();
    disk_.Set(FaultyDisk::Fault::kNone);
    StoreInternals internals;
    internals.env = disk_.env();
    internals.recovery_interval_min = absl::ZeroDuration();
    auto store = OpenStoreWith(folder_ / "store", SmallOptions(), internals);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(*store);
  }
  // RocksDB's own recovery may hold the first attempts off.
  void PutOnceThereIsRoom(const std::string& key) {
    absl::Status put = PutWithJob(store_.get(), key);
    while (absl::IsResourceExhausted(put)) {
      std::this_thread::yield();
      put = PutWithJob(store_.get(), key);
    }
    EXPECT_TRUE(put.ok()) << put.ToString();
  }
  void ExpectWhole(const std::string& key) {
    EXPECT_EQ(store_->Get(Table::kItems, key).ok(), store_->Get(Table::kJobs, key).ok()) << key;
  }

  TemporaryFolder folder_;
  FaultyDisk disk_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreDisk, AFullDiskIsResourceExhaustedAndWritesGoOnWhenSpaceIsBack) {
  for (const auto fault : {FaultyDisk::Fault::kFullOnAppend, FaultyDisk::Fault::kFullOnSync}) {
    disk_.Set(fault);
    for (int i = 0; i < 3; ++i) {
      const absl::Status full = PutWithJob(store_.get(), StrCat("during ", i));
      EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full.ToString();
      EXPECT_THAT(MessageOf(full), HasSubstr("the disk is full: free some space"));
    }
    EXPECT_TRUE(store_->Get(Table::kItems, "before").ok()) << "reads go on";
    disk_.Set(FaultyDisk::Fault::kNone);
    PutOnceThereIsRoom("after");
    for (int i = 0; i < 3; ++i) ExpectWhole(StrCat("during ", i));
    Reopen();
    EXPECT_TRUE(store_->Get(Table::kItems, "after").ok());
    for (int i = 0; i < 3; ++i) ExpectWhole(StrCat("during ", i));
  }
}

TEST_F(StoreDisk, AFullDiskThatTheFirstWriteMeetsIsLeftBehindAsWell) {
  for (const auto fault : {FaultyDisk::Fault::kFullOnAppend, FaultyDisk::Fault::kFullOnSync}) {
    OpenOnly();  // nothing of ours is in a memtable
    disk_.Set(fault);
    EXPECT_EQ(PutWithJob(store_.get(), "during").code(), absl::StatusCode::kResourceExhausted);
    disk_.Set(FaultyDisk::Fault::kNone);
    PutOnceThereIsRoom("after");
    ExpectWhole("during");
    Reopen();
    EXPECT_TRUE(store_->Get(Table::kItems, "after").ok());
    ExpectWhole("during");
  }
}

TEST_F(StoreDisk, AFullDiskThatTheFirstWriteAfterACheckpointMeetsIsLeftBehindAsWell) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(store_->Checkpoint(folder_ / StrCat("copy-", round)), absl::OkStatus());  // empties every memtable
    disk_.Set(FaultyDisk::Fault::kFullOnAppend);
    EXPECT_EQ(PutWithJob(store_.get(), "during").code(), absl::StatusCode::kResourceExhausted);
    disk_.Set(FaultyDisk::Fault::kNone);
    PutOnceThereIsRoom("after");
    ExpectWhole("during");
    Reopen();
    EXPECT_TRUE(store_->Get(Table::kItems, "after").ok());
    ExpectWhole("during");
  }
}

TEST_F(StoreDisk, ACheckpointBesideALogWithoutRoomDoesNotEndWritesForGood) {
  disk_.Set(FaultyDisk::Fault::kFullOnAppend);
  EXPECT_EQ(PutWithJob(store_.get(), "during").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->Checkpoint(folder_ / "copy").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->Stats().read_only, 0u);
  disk_.Set(FaultyDisk::Fault::kNone);
  PutOnceThereIsRoom("after");
  EXPECT_EQ(store_->Checkpoint(folder_ / "copy"), absl::OkStatus());
}

TEST_F(StoreDisk, AfterAnIoErrorNothingIsAcknowledgedAndReadsGoOn) {
  for (const auto fault : {FaultyDisk::Fault::kBrokenSync, FaultyDisk::Fault::kBrokenAppend}) {
    disk_.Set(fault);
    const absl::Status first = PutWithJob(store_.get(), "during");
    EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable) << first.ToString();
    EXPECT_THAT(MessageOf(first), HasSubstr("is read-only since an I/O error"));
    EXPECT_EQ(store_->Stats().read_only, 1u) << "for monitors: who is refused a write may not tell";
    disk_.Set(FaultyDisk::Fault::kNone);
    for (const Durability durability : {Durability::kDurable, Durability::kProcess}) {
      EXPECT_EQ(PutWithJob(store_.get(), "later", durability).code(), absl::StatusCode::kUnavailable);
    }
    EXPECT_EQ(store_->DeleteRange(Table::kItems, "", "").code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(store_->Get(Table::kItems, "before").ok());
    Reopen();
    EXPECT_EQ(store_->Stats().read_only, 0u);
    EXPECT_TRUE(store_->Get(Table::kItems, "before").ok());
    EXPECT_FALSE(store_->Get(Table::kItems, "later").ok());
    ExpectWhole("during");
  }
}

TEST_F(StoreDisk, ConcurrentWritersAreAcknowledgedOnlyIfTheirWriteIsThereAfterAReopen) {
  constexpr int kThreads = 8;
  std::vector<std::vector<std::string>> acknowledged(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0;; ++i) {
        const std::string key = StrCat(t, "/", i);
        if (!PutWithJob(store_.get(), key).ok()) return;
        acknowledged[t].push_back(key);
        if (t == 0 && i == 20) disk_.Set(FaultyDisk::Fault::kBrokenSync);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Reopen();
  for (const auto& keys : acknowledged) {
    for (const std::string& key : keys) EXPECT_TRUE(store_->Get(Table::kItems, key).ok()) << key;
  }
}

TEST_F(StoreDisk, ACheckpointOntoAFullDiskFailsAndLeavesNothing) {
  disk_.Set(FaultyDisk::Fault::kFullOnAppend);
  EXPECT_EQ(store_->Checkpoint(folder_ / "copy").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "copy"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "copy.partial"));
}

}  // namespace
}  // namespace lightcone
