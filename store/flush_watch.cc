#include "store/flush_watch.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/time/clock.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(250);
constexpr absl::Duration kPatience = absl::Milliseconds(1500);  // RocksDB pauses for a second after an error
constexpr int kRequests = 8;                                    // more than the queue ever holds

}  // namespace

FlushWatch::FlushWatch(rocksdb::DB* db, std::vector<rocksdb::ColumnFamilyHandle*> families,
                       std::function<bool()> may_flush)
    : db_(db), families_(std::move(families)), may_flush_(std::move(may_flush)), thread_([this] { Run(); }) {}

FlushWatch::~FlushWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void FlushWatch::Run() {
  absl::Time since = absl::InfiniteFuture();
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kLook)) return;
    }
    if (!may_flush_() || !Forgotten()) {
      since = absl::InfiniteFuture();
      continue;
    }
    since = std::min(since, absl::Now());
    if (absl::Now() - since < kPatience) continue;
    spdlog::warn("store '{}': a flush was forgotten after an error of the disk and is asked for again", db_->GetName());
    AskAgain();
    since = absl::InfiniteFuture();
  }
}

bool FlushWatch::Forgotten() const {
  using Properties = rocksdb::DB::Properties;
  uint64_t waiting = 0, running = 0;
  return db_->GetAggregatedIntProperty(Properties::kMemTableFlushPending, &waiting) &&
         db_->GetIntProperty(Properties::kNumRunningFlushes, &running) && waiting > 0 && running == 0;
}

void FlushWatch::AskAgain() {
  rocksdb::FlushOptions ask;
  ask.wait = false;
  ask.allow_write_stall = true;  // a call without this waits for an earlier flush
  for (int i = 0; i < kRequests; ++i) {
    if (!db_->Flush(ask, families_).IsTryAgain()) continue;
    // Writes are stopped until a flush has ended. RocksDB then takes only requests that wait for their end.
    ask.wait = true;
    std::vector<std::thread> askers;
    for (int k = 0; k < kRequests; ++k) askers.emplace_back([this, ask] { (void)db_->Flush(ask, families_); });
    for (std::thread& asker : askers) asker.join();
    return;
  }
}

}  // namespace lightcone
