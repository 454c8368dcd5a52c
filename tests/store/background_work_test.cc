// Waits for RocksDB's background work, with a gate in front of its flushes.
#include "store/background_work.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <vector>

#include "rocksdb/db.h"
#include "store/flush_gate.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);

class FlushesAtAGate : public testing::Test {
 protected:
  void SetUp() override {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.env = gate_.env();
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, folder_ / "db", &raw).ok());
    db_.reset(raw);
    families_ = {db_->DefaultColumnFamily()};
    ASSERT_TRUE(db_->Put({}, "key", "value").ok());
  }
  void TearDown() override { gate_.End(); }

  TemporaryFolder folder_;
  FlushGate gate_{nullptr, [] { return std::numeric_limits<uint64_t>::max(); }};
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
};

TEST_F(FlushesAtAGate, AFlushThatTheGateHoldsIsNotWaitedForForEver) {
  const auto goes_on = [] { return false; };
  gate_.Close();
  EXPECT_TRUE(FlushAll(*db_, families_, absl::Milliseconds(20), goes_on).IsBusy());
  EXPECT_TRUE(FlushAll(*db_, families_, kLong, [] { return true; }).IsBusy());
  gate_.End();
  EXPECT_TRUE(FlushAll(*db_, families_, kLong, goes_on).ok());
  rocksdb::TablePropertiesCollection tables;
  ASSERT_TRUE(db_->GetPropertiesOfAllTables(&tables).ok());
  EXPECT_EQ(tables.size(), 1u) << "of both calls";
  EXPECT_TRUE(AwaitIdle(*db_, kLong).ok());
}

TEST_F(FlushesAtAGate, WhatIsInTablesNeedsNoFlush) {
  ASSERT_TRUE(FlushAll(*db_, families_, kLong, [] { return false; }).ok());
  gate_.Close();
  EXPECT_TRUE(FlushAll(*db_, families_, absl::ZeroDuration(), [] { return true; }).ok());
}

}  // namespace
}  // namespace lightcone
