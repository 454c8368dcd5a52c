#include "index/scan_queue.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/cores.h"

namespace lightcone {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(2);  // of a scan that waits, at its deadline and cancellation

// Linux: 0 is the calling thread, and the process's number that of its first thread.
bool StandsBack() {
  return ::getpriority(PRIO_PROCESS, 0) > ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
}

}  // namespace

ScanQueue& ScanQueue::OfProcess() {
  static ScanQueue queue(AvailableCores());
  return queue;
}

void ScanQueue::Run(const Rows& rows, SegmentScan* scan, size_t queries, Scanner scan_all,
                    absl::FunctionRef<bool()> gave_up, absl::FunctionRef<void(SegmentScan*)> failed) {
  if (rows.bytes < kBytesMin || StandsBack()) return scan_all({&scan, 1});
  Waiting mine{rows, scan, queries};
  {
    absl::MutexLock lock(&mu_);
    if (running_ < at_once_) {
      ++running_;
      mine.scans = true;
    } else {
      waiting_.push_back(&mine);
    }
    while (!mine.scans && !mine.done) {
      changed_.WaitWithTimeout(&mu_, kBetweenLooks);
      if (mine.taken || mine.scans) continue;
      try {
        if (!gave_up()) continue;
      } catch (...) {
        std::erase(waiting_, &mine);
        throw;
      }
      std::erase(waiting_, &mine);
      return;
    }
  }
  if (mine.scans) Scan(mine, scan_all, failed);
}

void ScanQueue::Scan(Waiting& mine, Scanner scan_all, absl::FunctionRef<void(SegmentScan*)> failed) {
  std::vector<Waiting*> others;
  std::vector<SegmentScan*> scans = {mine.scan};
  const absl::Cleanup end = [&] {
    absl::MutexLock lock(&mu_);
    for (Waiting* other : others) other->done = true;
    --running_;
    HandOn();
    changed_.SignalAll();
  };
  others.reserve(kQueriesMax);
  scans.reserve(kQueriesMax);
  size_t queries = mine.queries;
  {
    absl::MutexLock lock(&mu_);
    std::erase_if(waiting_, [&](Waiting* one) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (!(one->rows == mine.rows) || queries + one->queries > kQueriesMax) return false;
      queries += one->queries;
      one->taken = true;
      others.push_back(one);
      scans.push_back(one->scan);
      return true;
    });
  }
  try {
    scan_all(scans);
  } catch (...) {
    for (Waiting* other : others) failed(other->scan);
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
