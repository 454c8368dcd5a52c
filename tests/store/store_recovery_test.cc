// A store on a disk that is full or that fails for a while: what it refuses meanwhile, and that it goes on by itself.
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "store/disk_reserve.h"
#include "store/rocksdb_store.h"
#include "tests/store/faulty_disk.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

constexpr int64_t kReserve = 1 << 20;
constexpr absl::Duration kPatience = absl::Seconds(20);

bool Comes(const std::function<bool()>& what) {
  const absl::Time limit = absl::Now() + kPatience;
  while (!what()) {
    if (absl::Now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

class StoreRecovery : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    disk_.Set(FaultyDisk::Fault::kNone);
    StoreInternals internals;
    internals.env = disk_.env();
    internals.recovery_interval_min = absl::ZeroDuration();
    internals.watch_interval = watch_interval_;
    internals.free_bytes = [this] { return free_.load(); };
    StoreOptions options;
    options.memory_bytes = 16 << 20;
    options.reserve_bytes = kReserve;
    auto store = OpenStoreWith(folder_ / "store", options, internals);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(*store);
  }
  absl::Status Put(const std::string& key) {
    WriteBatch batch;
    batch.Put(Table::kItems, key, "value of " + key);
    return store_->Write(batch, Durability::kDurable);
  }
  // The end of a range of items makes the store write its items to a new table. An empty range leaves no tombstone,
  // which would ask for a compaction.
  absl::Status WriteTable() { return store_->DeleteRange(Table::kItems, "x", "x"); }
  size_t Tables() const {
    size_t tables = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "store")) {
      tables += entry.path().extension() == ".sst";
    }
    return tables;
  }
  bool ReserveIsThere() const { return std::filesystem::exists(folder_ / "store/" + kReserveName); }

  absl::Duration watch_interval_ = absl::Milliseconds(5);
  TemporaryFolder folder_;
  FaultyDisk disk_;
  std::atomic<int64_t> free_{100 * kReserve};
  std::unique_ptr<Store> store_;
};

TEST_F(StoreRecovery, NewDataIsRefusedBeforeTheDiskIsFullAndWelcomeOnceThereIsRoom) {
  EXPECT_TRUE(ReserveIsThere());
  EXPECT_EQ(store_->Stats().reserve_bytes, static_cast<uint64_t>(kReserve));
  EXPECT_TRUE(store_->CheckGrowth(1'000).ok());
  free_ = kReserve / 4 + 999;
  EXPECT_TRUE(store_->CheckGrowth(999).ok());
  const absl::Status refused = store_->CheckGrowth(1'000);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), HasSubstr(StrCat(free_.load(), " bytes are free")));
  EXPECT_THAT(MessageOf(refused), HasSubstr(StrCat("new data needs ", kReserve / 4 + 1'000, " bytes")));
  EXPECT_EQ(store_->CheckGrowth(UINT64_MAX).code(), absl::StatusCode::kResourceExhausted) << "the sum does not wrap";
  EXPECT_TRUE(ReserveIsThere()) << "nobody needs it yet";
  free_ = 100 * kReserve;
  EXPECT_TRUE(store_->CheckGrowth(1'000).ok()) << "at once";
}

TEST_F(StoreRecovery, AWriteThatFindsNoRoomUsesTheReserveWhichIsRebuiltLater) {
  free_ = 100;
  ASSERT_TRUE(Put("a").ok());
  EXPECT_FALSE(ReserveIsThere());
  EXPECT_EQ(store_->Stats().reserve_bytes, 0u);
  free_ = kReserve;  // what the reserve has given
  EXPECT_FALSE(store_->CheckGrowth(0).ok()) << "the reserve is not for new data";
  EXPECT_EQ(store_->Stats().growth_refused, 1u);
  free_ = 2 * kReserve;
  EXPECT_TRUE(store_->CheckGrowth(0).ok());
  EXPECT_TRUE(Comes([&] { return store_->Stats().reserve_bytes == static_cast<uint64_t>(kReserve); }));
  EXPECT_TRUE(ReserveIsThere());
}

TEST_F(StoreRecovery, AFullDiskIsLeftBehindWithoutAnyWrite) {
  disk_.Set(FaultyDisk::Fault::kFullOnAppend);
  EXPECT_EQ(Put("a").code(), absl::StatusCode::kResourceExhausted);
  disk_.Set(FaultyDisk::Fault::kNone);
  EXPECT_TRUE(Comes([&] { return Put("b").ok(); }));
}

// RocksDB drops a flush that it scheduled before an error and that begins after it, and its recovery waits for that
// flush for ever.
TEST_F(StoreRecovery, AFlushThatBeginsLateDoesNotKeepAFullDiskFromBeingLeftBehind) {
  watch_interval_ = absl::Minutes(1);  // nothing resumes the store before the flush wants to begin
  int flushes = 0;
  for (const auto fault : {FaultyDisk::Fault::kFullOnAppend, FaultyDisk::Fault::kFullOnSync}) {
    Open();
    ASSERT_TRUE(Put("a").ok());
    disk_.DelayFlushes(absl::Milliseconds(200));
    ASSERT_TRUE(WriteTable().ok());
    disk_.Set(fault);
    EXPECT_EQ(Put("b").code(), absl::StatusCode::kResourceExhausted);
    ASSERT_TRUE(Comes([&] { return disk_.delayed_flushes() > flushes; }));
    disk_.DelayFlushes(absl::ZeroDuration());
    disk_.Set(FaultyDisk::Fault::kNone);
    EXPECT_TRUE(Comes([&] { return Put("b").ok(); }));
    EXPECT_TRUE(store_->Get(Table::kItems, "a").ok());
    flushes = disk_.delayed_flushes();
  }
}

// The flushes of several tables wait for each other, and an attempt to recover ends with the first that fails.
TEST_F(StoreRecovery, FlushesThatWaitBehindOneThatFailsAreNotForgotten) {
  disk_.DelayFlushes(absl::Milliseconds(20));
  disk_.Set(FaultyDisk::Fault::kBrokenTables);
  const auto refused = [&] {  // the memtables of these tables are full at about the same time
    WriteBatch batch;
    for (const Table table : {Table::kItems, Table::kOrder, Table::kInputs, Table::kJobs}) {
      batch.Put(table, "key of a row", std::string(300'000, 'x'));
    }
    return !store_->Write(batch, Durability::kProcess).ok();
  };
  ASSERT_TRUE(Comes(refused));
  ASSERT_TRUE(Comes([&] { return store_->Stats().background_errors_total > 3; }));
  disk_.Set(FaultyDisk::Fault::kNone);
  EXPECT_TRUE(Comes([&] { return Put("b").ok(); }));
}

TEST_F(StoreRecovery, AFullDiskUnderManyWritersIsLeftBehind) {
  std::atomic<bool> ending{false};
  std::atomic<int> written{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 6; ++i) {
    writers.emplace_back([&, i] {
      while (!ending) written += Put(StrCat("writer ", i)).ok();
    });
  }
  for (int round = 0; round < 10; ++round) {
    disk_.Set(round % 2 == 0 ? FaultyDisk::Fault::kFullOnAppend : FaultyDisk::Fault::kFullOnSync);
    EXPECT_TRUE(Comes([&] { return !Put("a").ok(); }));
    disk_.Set(FaultyDisk::Fault::kNone);
    const int before = written;
    EXPECT_TRUE(Comes([&] { return written > before + 10; })) << "round " << round;
    EXPECT_EQ(store_->Stats().read_only, 0u) << "round " << round;
    if (HasFailure()) break;
  }
  ending = true;
  for (std::thread& writer : writers) writer.join();
}

TEST_F(StoreRecovery, ACompactionThatCannotReadIsTriedAgainAndWritesGoOn) {
  for (int table = 0; table < 3; ++table) {
    ASSERT_TRUE(Put("a").ok());
    const size_t before = Tables();
    ASSERT_TRUE(WriteTable().ok());
    ASSERT_TRUE(Comes([&] { return Tables() > before; }));
  }
  disk_.Set(FaultyDisk::Fault::kBrokenReading);
  const auto failed = [&] {  // every further table asks for a compaction of all
    EXPECT_TRUE(Comes([&] { return Put("a").ok(); })) << "the log is as it was";
    EXPECT_TRUE(Comes([&] { return WriteTable().ok(); }));
    return store_->Stats().background_errors_total > 0;
  };
  ASSERT_TRUE(Comes(failed));
  EXPECT_EQ(store_->Stats().read_only, 0u);
  disk_.Set(FaultyDisk::Fault::kNone);
  EXPECT_TRUE(Comes([&] { return store_->Stats().background_resumes_total > 0; }));
  EXPECT_TRUE(Comes([&] { return Put("b").ok(); }));
  EXPECT_EQ(store_->Stats().read_only, 0u);
  Open();
  EXPECT_TRUE(store_->Get(Table::kItems, "a").ok());
  EXPECT_TRUE(store_->Get(Table::kItems, "b").ok());
}

TEST_F(StoreRecovery, AWriteThatMustWaitForAFailedCompactionIsWrittenOnceItGoesOn) {
  const auto add_table = [&] {
    const size_t before = Tables();
    EXPECT_TRUE(Put("a").ok());
    EXPECT_TRUE(WriteTable().ok());
    return Comes([&] { return Tables() > before; });
  };
  for (int table = 0; table < 3; ++table) ASSERT_TRUE(add_table());
  disk_.Set(FaultyDisk::Fault::kBrokenReading);
  constexpr size_t kStop = 36;  // tables of level 0 at which RocksDB stops writes
  while (Tables() < kStop) ASSERT_TRUE(add_table());
  absl::Status written;
  std::thread writer([&] { written = Put("stopped"); });
  const uint64_t before = store_->Stats().background_errors_total;
  EXPECT_TRUE(Comes([&] { return store_->Stats().background_errors_total > before; }));
  disk_.Set(FaultyDisk::Fault::kNone);
  writer.join();
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_TRUE(store_->Get(Table::kItems, "stopped").ok());
}

TEST_F(StoreRecovery, ATableThatCannotBeWrittenRefusesWritesUntilItCan) {
  ASSERT_TRUE(Put("before").ok());
  disk_.Set(FaultyDisk::Fault::kBrokenTables);
  ASSERT_TRUE(WriteTable().ok());
  ASSERT_TRUE(Comes([&] { return store_->Stats().background_errors_total > 0; }));
  absl::Status refused;
  EXPECT_TRUE(Comes([&] {
    refused = Put("during");
    return !refused.ok();
  }));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(refused), HasSubstr("background work failed and is tried again"));
  EXPECT_EQ(store_->Stats().read_only, 0u);
  EXPECT_TRUE(store_->Get(Table::kItems, "before").ok()) << "reads go on";
  disk_.Set(FaultyDisk::Fault::kNone);
  EXPECT_TRUE(Comes([&] { return Put("after").ok(); }));
  EXPECT_GT(store_->Stats().background_resumes_total, 0u);
  Open();
  EXPECT_TRUE(store_->Get(Table::kItems, "before").ok());
  EXPECT_TRUE(store_->Get(Table::kItems, "after").ok());
}

}  // namespace
}  // namespace lightcone
