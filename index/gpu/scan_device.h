// The device that scans sealed segments exactly, beside the CPU, which does all that the device does not: small
// segments, filters, what does not fit, and everything once the device is lost.
//
// Its answers are supersets of the exact top k, with proven errors of their scores (scan_bounds.h): ranked as the CPU
// ranks its own candidates, they give the same hits.
// Threads: every method is safe from any thread; scans take turns.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "index/gpu/device_memory.h"
#include "index/gpu/device_options.h"
#include "index/gpu/scan_run.h"
#include "index/rows/segment.h"

namespace lightcone::gpu {

struct DeviceStats {
  int64_t bytes = 0, bytes_max = 0;                   // device memory taken, and allowed
  int64_t segments_copied = 0, segments_refused = 0;  // counts since the device was opened
  int64_t scans = 0;                                  // queries answered
  int64_t incomplete = 0;                             // given back to the CPU
  bool lost = false;
};

class ScanDevice {
 public:
  // Tries it with rows and queries whose answers are known, by every kernel. UNAVAILABLE says what is wrong with it.
  static absl::StatusOr<std::shared_ptr<ScanDevice>> Open(std::unique_ptr<DeviceMachine> machine,
                                                          const DeviceOptions& options);
  ~ScanDevice();
  ScanDevice(const ScanDevice&) = delete;
  ScanDevice& operator=(const ScanDevice&) = delete;

  const std::string& name() const { return budget_->machine().name(); }
  const DeviceOptions& options() const { return options_; }
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  DeviceStats Stats() const;

  // The rows of a segment that will not change, if they are on the device. If not, and they are many enough, they are
  // copied for later searches.
  std::shared_ptr<const DeviceRows> RowsOf(const std::shared_ptr<const Segment>& segment)
      ABSL_LOCKS_EXCLUDED(queue_mu_);
  // Rows of the segment that are visible by these counts. nullptr: there is no room for them.
  std::shared_ptr<const DeviceBits> BitsOf(const DeviceRows& rows, const std::shared_ptr<const StateCounts>& counts,
                                           uint32_t view_generation, absl::FunctionRef<bool(uint32_t)> visible);

  // One answer a query, in their order; the CPU scans what is incomplete. Never fails: a device that fails is lost,
  // which is logged once, and its answers are incomplete. So are answers of queries that gave up, and of all queries
  // where the device is busy for long. The parts of all queries are on this device.
  std::vector<DeviceAnswer> Scan(std::span<const DeviceQuery> queries) ABSL_LOCKS_EXCLUDED(turn_mu_);

  // Ends the thread that copies segments; those that wait for it stay with the CPU. Called again it does nothing.
  void StopCopying() ABSL_LOCKS_EXCLUDED(queue_mu_);

  // For rows of no segment: the test at the start, and benchmarks.
  const std::shared_ptr<DeviceBudget>& budget() const { return budget_; }

 private:
  ScanDevice(std::shared_ptr<DeviceBudget> budget, const DeviceOptions& options)
      : budget_(std::move(budget)), options_(options) {}

  // The first of `chosen` that found_ has room for.
  size_t GroupOf(std::span<const DeviceQuery> queries, std::span<const size_t> chosen) const;
  // In a turn. RESOURCE_EXHAUSTED: args_ is too small for so many. DEADLINE_EXCEEDED: no turn came. Else the device is
  // lost.
  absl::StatusOr<std::vector<DeviceAnswer>> Run(std::span<const DeviceQuery> queries) ABSL_LOCKS_EXCLUDED(turn_mu_);
  // Answers those of `queries` that `chosen` numbers.
  absl::Status RunChosen(std::span<const DeviceQuery> queries, std::span<const size_t> chosen,
                         std::vector<DeviceAnswer>* answers) ABSL_LOCKS_EXCLUDED(turn_mu_);
  // False: it did not come in time, or is not worth waiting for.
  bool TakeTurn(std::span<const DeviceQuery> queries) ABSL_LOCKS_EXCLUDED(turn_mu_);
  void CopyLoop() ABSL_LOCKS_EXCLUDED(queue_mu_);
  void CopySegment(const Segment& segment);
  void Lose(const absl::Status& status);

  const std::shared_ptr<DeviceBudget> budget_;
  const DeviceOptions options_;
  std::atomic<bool> lost_{false}, stopping_{false};
  std::atomic<int64_t> copied_{0}, refused_{0}, scans_{0}, incomplete_{0};

  // Taken when it is opened, so that a full budget stops no scan. What is in them belongs to whoever has the turn.
  DeviceMemory found_, args_;
  absl::Mutex turn_mu_;
  bool turn_taken_ ABSL_GUARDED_BY(turn_mu_) = false;

  absl::Mutex queue_mu_;
  std::deque<std::weak_ptr<const Segment>> wanted_ ABSL_GUARDED_BY(queue_mu_);  // segments to copy, each at most once
  std::once_flag copier_stopped_;
  std::thread copier_;
};

}  // namespace lightcone::gpu
