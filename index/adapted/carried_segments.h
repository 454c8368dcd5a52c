// Sealed segments that an item adapter has carried over (carry.h), and their folder. They are a cache: it can be
// dropped and made again at any time, and no change of a collection waits for it. KeepOnly removes what a crash left
// behind.
//
//   FOLDER/ID/           segment ID as carried: a sealed segment, and carried.json, written last
//   FOLDER/ID.flat/      the same before the choice of its graph
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
  ~CarriedSegments();  // Leaves the files for the next start.
  CarriedSegments(const CarriedSegments&) = delete;
  CarriedSegments& operator=(const CarriedSegments&) = delete;

  // The carried segment. Null when there is none, or its files are damaged.
  std::shared_ptr<const AdaptedSegment> Find(const std::shared_ptr<const Segment>& segment) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether Carry has something to do now: the segment is not carried over, and no try failed lately. IVF segments are
  // never carried: their lists divide the rows in their own space.
  bool Wanted(const SealedSegment& segment) const ABSL_LOCKS_EXCLUDED(mu_);

  // Opens what an earlier run carried and reads it through, at the pace of checks; else carries the segment. Afterwards
  // Find has it. The measured recall of the old graph decides whether searches use that graph or a new one is built.
  // Until then the carried segment has no graph.
  // CANCELLED; RESOURCE_EXHAUSTED when disk or budget are spent; INVALID_ARGUMENT when a row cannot be carried. The
  // next try comes after a minute; after INVALID_ARGUMENT none comes.
  absl::Status Carry(const std::shared_ptr<const SealedSegment>& segment, const IndexSettings& settings,
                     const std::function<bool()>& stop) ABSL_LOCKS_EXCLUDED(mu_);

  // Forgets and removes carried segments of all but these segments.
  absl::Status KeepOnly(std::span<const uint64_t> segments) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t rows() const ABSL_LOCKS_EXCLUDED(mu_);   // carried rows
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);  // bytes of the mapped files

 private:
  struct Entry {
    std::shared_ptr<const CarriedSegment> carried;  // null until the rows are carried
    bool finished = false;                          // whether its graph is chosen
    int64_t budgeted = 0;                           // bytes taken from the budget
    absl::Time retry_at = absl::InfinitePast();     // earliest next try after an error
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
  std::vector<uint64_t> kept_;  // last argument of KeepOnly, ascending
  bool swept_ = false;          // whether KeepOnly was called

  mutable absl::Mutex mu_;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);  // by segment id, which is never used twice
};

// Removes the folders of adapters that are gone: all in `folder` but those named by one of these versions. Running
// searches keep their mappings.
absl::Status KeepOnlyVersions(const std::string& folder, std::span<const uint64_t> versions);

}  // namespace lightcone
