// Takes scans of concurrent searches together. While every core scans for some call, other calls wait. One of the calls
// that wait for the same segment then scans for all of them, so that its rows are read from memory once.
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

struct SegmentScan;  // defined in scan.cc

class ScanQueue {
 public:
  // Scans of fewer bytes never wait: they end before waiting would pay.
  static constexpr int64_t kBytesMin = 8 << 20;
  static constexpr size_t kQueriesMax = 32;  // queries of scans taken together

  // The rows of a scan. Scans of the same rows may be taken together.
  struct Rows {
    const void* first = nullptr;
    int64_t count = 0, bytes = 0;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  // Returns one of the scans to its caller: nothing more is done for it.
  using Release = absl::FunctionRef<void(SegmentScan*)>;
  // Does all scans. REQUIRES: the first scan, which is the caller's own, is not released.
  using Scanner = absl::FunctionRef<void(std::span<SegmentScan* const>, Release)>;

  // At most `at_once` callers, one or more, scan side by side.
  explicit ScanQueue(int at_once) : at_once_(at_once) {}

  // The queue of this process, with a scan for each core.
  static ScanQueue& OfProcess();

  // Returns once `scan`, which has this many `queries`, is done: by `scan_all` here, together with scans that wait for
  // the same rows, or by another caller's. While it waits, it asks `gave_up` now and then; if that is true, it returns
  // false, and nothing was scanned. Where `scan_all` throws, its caller gets the exception, and callers whose scans it
  // had taken get false. A thread of lower priority than the process neither waits nor scans for others.
  bool Run(const Rows& rows, SegmentScan* scan, size_t queries, Scanner scan_all, absl::FunctionRef<bool()> gave_up);

 private:
  struct Waiting {
    Rows rows;
    SegmentScan* scan = nullptr;
    size_t queries = 0;
    bool taken = false, done = false, scans = false, failed = false;
  };

  void Scan(Waiting& mine, Scanner scan_all);
  // Waits until another caller has done the scan or this caller may scan. False: the caller gave up.
  bool Wait(Waiting& mine, absl::FunctionRef<bool()> gave_up);
  // Gives a core to the caller that has waited longest.
  void HandOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int at_once_;
  absl::Mutex mu_;
  absl::CondVar changed_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Waiting*> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone
