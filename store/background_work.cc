#include "store/background_work.h"

#include <cstdint>
#include <string>

#include "absl/time/clock.h"

namespace lightcone {
namespace {

using Properties = rocksdb::DB::Properties;

constexpr absl::Duration kLookEvery = absl::Milliseconds(1);

bool IsPositive(rocksdb::DB& db, const std::string& property) {
  uint64_t value = 0;
  return db.GetAggregatedIntProperty(property, &value) && value > 0;
}

}  // namespace

rocksdb::Status AwaitIdle(rocksdb::DB& db, absl::Duration most) {
  const absl::Time limit = absl::Now() + most;
  while (IsPositive(db, Properties::kNumRunningFlushes) || IsPositive(db, Properties::kNumRunningCompactions)) {
    if (absl::Now() >= limit) return rocksdb::Status::Busy("background work has not ended");
    absl::SleepFor(kLookEvery);
  }
  return rocksdb::Status::OK();
}

rocksdb::Status FlushAll(rocksdb::DB& db, const std::vector<rocksdb::ColumnFamilyHandle*>& families,
                         absl::Duration most, const std::function<bool()>& given_up) {
  const absl::Time limit = absl::Now() + most;
  rocksdb::FlushOptions in_background;
  in_background.wait = false;
  in_background.allow_write_stall = true;  // A call without this waits for earlier flushes.
  const rocksdb::Status begun = db.Flush(in_background, families);
  // A stop of writes ends with the compactions that it waits for.
  if (begun.IsTryAgain()) return rocksdb::Status::Busy("writes are stopped");
  if (!begun.ok()) return begun;
  while (IsPositive(db, Properties::kNumImmutableMemTable)) {
    if (given_up() || absl::Now() >= limit) return rocksdb::Status::Busy("memtables are not flushed yet");
    absl::SleepFor(kLookEvery);
  }
  return rocksdb::Status::OK();
}

}  // namespace lightcone
