// Scans of concurrent searches, taken together. While every core scans for some call, others wait; and what waits for
// rows of one segment is then scanned by one of them, so that the rows are read from memory once for all.
// Threads: safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace lightcone {

struct SegmentScan;  // segment_search.cc

class ScanQueue {
 public:
  // Scans of rows of fewer bytes never wait: they are over before waiting for others pays.
  static constexpr int64_t kBytesMin = 8 << 20;
  static constexpr size_t kQueriesMax = 32;  // queries of scans taken together

  // Which rows: scans of the same may be taken together.
  struct Rows {
    const void* first = nullptr;
    int64_t count = 0, bytes = 0;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  // Tells that nothing more is done of one of the scans, which its caller may take back then.
  using Release = absl::FunctionRef<void(SegmentScan*)>;
  // Does all of them. REQUIRES: the first, which is the caller's own, is not released.
  using Scanner = absl::FunctionRef<void(std::span<SegmentScan* const>, Release)>;

  explicit ScanQueue(int at_once) : at_once_(at_once) {}  // scans of this many callers run side by side. At least 1.

  // The one of this process, with a scan for each core.
  static ScanQueue& OfProcess();

  // Returns once `scan`, of so many `queries`, is done: by `scan_all` here, with what else waits for the same rows, or
  // by that of another caller. While it waits `gave_up` is asked now and then, beside whoever may have taken the scan;
  // when that says so, nothing of it was scanned, and false comes back. Where `scan_all` throws, its caller gets the
  // exception, and those whose scans it had taken false. A thread of lower priority than the process neither waits nor
  // scans for others: they would wait for it.
  bool Run(const Rows& rows, SegmentScan* scan, size_t queries, Scanner scan_all, absl::FunctionRef<bool()> gave_up);

 private:
  struct Waiting {
    Rows rows;
    SegmentScan* scan = nullptr;
    size_t queries = 0;
    bool taken = false, done = false, scans = false, failed = false;
  };

  void Scan(Waiting& mine, Scanner scan_all);
  // Until somebody has done it, it is this caller's turn, or it gave up. False: that.
  bool Wait(Waiting& mine, absl::FunctionRef<bool()> gave_up);
  // Gives a core to whoever waits longest.
  void HandOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int at_once_;
  absl::Mutex mu_;
  absl::CondVar changed_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Waiting*> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone
