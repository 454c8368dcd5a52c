#include "index/search/scan_queue.h"

#include <algorithm>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/cores.h"
#include "base/dcheck.h"
#include "base/priority.h"

namespace lightcone {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(2);  // time between looks of a waiting scan at its deadline

}  // namespace

ScanQueue& ScanQueue::OfProcess() {
  static ScanQueue queue(AvailableCores());
  return queue;
}

bool ScanQueue::Run(const Rows& rows, SegmentScan* scan, size_t queries, Scanner scan_all,
                    absl::FunctionRef<bool()> gave_up) {
  if (rows.bytes < kBytesMin || ThreadStandsBack()) {
    scan_all({&scan, 1}, [](SegmentScan*) {});
    return true;
  }
  Waiting mine{rows, scan, queries};
  if (!Wait(mine, gave_up)) return false;
  if (mine.scans) Scan(mine, scan_all);
  return !mine.failed;
}

bool ScanQueue::Wait(Waiting& mine, absl::FunctionRef<bool()> gave_up) {
  absl::MutexLock lock(&mu_);
  if (running_ < at_once_) {
    ++running_;
    mine.scans = true;
    return true;
  }
  waiting_.push_back(&mine);
  while (!mine.scans && !mine.done) {
    changed_.WaitWithTimeout(&mu_, kBetweenLooks);
    if (mine.taken || mine.scans) continue;
    mu_.Unlock();  // gave_up() may take its time.
    const bool gone = gave_up();
    mu_.Lock();
    if (!gone || mine.taken || mine.scans) continue;
    std::erase(waiting_, &mine);
    return false;
  }
  return true;
}

void ScanQueue::Scan(Waiting& mine, Scanner scan_all) {
  std::vector<Waiting*> others;
  const absl::Cleanup end = [&] {
    absl::MutexLock lock(&mu_);
    for (Waiting* other : others) other->done = true;
    --running_;
    HandOn();
    changed_.SignalAll();
  };
  others.reserve(kQueriesMax);
  std::vector<SegmentScan*> scans;
  scans.reserve(kQueriesMax);
  scans.push_back(mine.scan);
  size_t queries = mine.queries;
  {
    absl::MutexLock lock(&mu_);
    std::erase_if(waiting_, [&](Waiting* one) {
      if (!(one->rows == mine.rows) || queries + one->queries > kQueriesMax) return false;
      queries += one->queries;
      one->taken = true;
      others.push_back(one);
      scans.push_back(one->scan);
      return true;
    });
  }
  const auto release = [&](SegmentScan* scan) {
    LC_DCHECK(scan != mine.scan);
    absl::MutexLock lock(&mu_);
    std::erase_if(others, [&](Waiting* other) {
      if (other->scan != scan) return false;
      other->done = true;
      return true;
    });
    changed_.SignalAll();
  };
  try {
    scan_all(scans, release);
  } catch (...) {
    absl::MutexLock lock(&mu_);
    for (Waiting* other : others) other->failed = true;
    throw;
  }
}

void ScanQueue::HandOn() {
  if (waiting_.empty() || running_ >= at_once_) return;
  waiting_.front()->scans = true;
  waiting_.pop_front();
  ++running_;
}

}  // namespace lightcone
