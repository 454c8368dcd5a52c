// Which sealed segments an item adapter has carried over (carry.h), and the folder that they lie in. A cache: it can be
// dropped and made again at any time, no change to a collection waits for it, and a crash leaves nothing behind but
// what the next KeepOnly removes.
//
//   FOLDER/ID/           the segment ID as carried: a sealed segment, and carried.json, written last
//   FOLDER/ID.flat/      the same before it is known which graph leads through it
//
// Threads: Find and the figures are safe from any thread. Carry and KeepOnly: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "index/adapted/carry.h"
#include "index/rows/adapted_rows.h"

namespace lightcone {

class CarriedSegments {
 public:
  // The adapter, whose file has this checksum, must outlive this. Nothing is read or written yet.
  CarriedSegments(const Adapter* adapter, uint32_t adapter_crc32c, std::string folder,
                  std::shared_ptr<AdaptedBudget> disk);
  ~CarriedSegments();  // the files stay, for the next start
  CarriedSegments(const CarriedSegments&) = delete;
  CarriedSegments& operator=(const CarriedSegments&) = delete;

  // The segment as carried, or nullptr; also when its files are damaged.
  std::shared_ptr<const AdaptedSegment> Find(const std::shared_ptr<const Segment>& segment) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether Carry has anything to do for the segment now: it is not carried over, nor has that failed lately. Segments
  // of lists never are: their rows lie as their own space has them.
  bool Wanted(const SealedSegment& segment) const ABSL_LOCKS_EXCLUDED(mu_);

  // Opens what an earlier run carried and reads it through, at the pace of checks, or carries the segment; afterwards
  // Find has it. The measure of its graph decides whether the old graph is walked or a new one is built; until that is
  // known it is there without one.
  // CANCELLED; RESOURCE_EXHAUSTED when disk or budget are spent; INVALID_ARGUMENT when a row cannot be carried. Another
  // try after such an error is made after a minute, after the last one never.
  absl::Status Carry(const std::shared_ptr<const SealedSegment>& segment, const IndexSettings& settings,
                     const std::function<bool()>& stop) ABSL_LOCKS_EXCLUDED(mu_);

  // Forgets and removes what belongs to none of these segments.
  absl::Status KeepOnly(std::span<const uint64_t> segments) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t rows() const ABSL_LOCKS_EXCLUDED(mu_);   // carried over
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);  // of their files, mapped

 private:
  struct Entry {
    std::shared_ptr<const CarriedSegment> carried;  // nullptr: not yet
    bool finished = false;                          // it is known which graph leads through it
    int64_t budgeted = 0;                           // bytes taken of the budget
    absl::Time retry_at = absl::InfinitePast();     // after an error
  };

  absl::Status CarryOrOpen(const CarryPlan& plan, const std::function<bool()>& stop);
  absl::StatusOr<CarriedSegment> Open(const SealedSegment& segment, const std::function<bool()>& stop) const;
  absl::Status Commit(const SealedSegment& segment, const std::string& folder, const CarriedSegment& carried) const;
  void Publish(uint64_t id, CarriedSegment carried, bool finished) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status TakeBudget(const CarryPlan& plan) ABSL_LOCKS_EXCLUDED(mu_);
  std::string PathOf(uint64_t id) const;

  const Adapter* const adapter_;
  const uint32_t adapter_crc32c_;
  const std::string folder_;
  const std::shared_ptr<AdaptedBudget> disk_;
  std::vector<uint64_t> kept_;  // KeepOnly only: what it was last told, ascending
  bool swept_ = false;          // KeepOnly only: whether it was told anything

  mutable absl::Mutex mu_;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);  // by segment id, which is never used twice
};

// Removes the folders of adapters that are gone: all in `folder` but those named by one of these versions. What still
// searches them keeps its mappings.
absl::Status KeepOnlyVersions(const std::string& folder, std::span<const uint64_t> versions);

}  // namespace lightcone
