// The view that searches hold: segments and the number of rows of each, as of one change.
// Threads: a SegmentView is immutable; see PublishedView for its own.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "index/api/collection_index.h"
#include "index/search/segment_search.h"

namespace lightcone {

// The segments of one generation.
struct ViewLeg {
  Space space;
  std::vector<PinnedSegment> segments;
};

class SegmentView : public IndexView {
 public:
  using Legs = std::map<uint32_t, std::shared_ptr<const ViewLeg>>;

  SegmentView(Legs legs, uint64_t sequence, int ef_default, int nprobe_default)
      : legs_(std::move(legs)), sequence_(sequence), ef_default_(ef_default), nprobe_default_(nprobe_default) {}

  std::vector<absl::StatusOr<SearchResult>> SearchTogether(std::span<const SearchRequest> requests) const override;
  absl::Status KeepCarried(uint32_t generation, CarriedSegments* carried) const override;
  absl::Status Adapt(uint32_t generation, AdaptedRows* rows, CarriedSegments* carried, const IndexSettings& settings,
                     const std::function<bool()>& cancelled) const override;
  int64_t VisibleRows(uint32_t generation, uint32_t view_generation) const override;
  std::vector<SampledRow> SampleRows(std::span<const uint32_t> generations, uint32_t view_generation,
                                     int64_t asked) const override;
  std::vector<uint32_t> Generations(uint32_t view_generation) const override;
  uint64_t sequence() const override { return sequence_; }

 private:
  const Legs legs_;
  const uint64_t sequence_;
  const int ef_default_;
  const int nprobe_default_;
};

// The newest view of an index. Threads: Get is safe from any thread, the others are called under the index's mutex.
class PublishedView {
 public:
  void SetLeg(uint32_t generation, std::shared_ptr<const ViewLeg> leg) { legs_[generation] = std::move(leg); }
  void RemoveLeg(uint32_t generation) { legs_.erase(generation); }
  // Makes a view of the legs as they are.
  void Publish(uint64_t sequence, int ef_default, int nprobe_default) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const SegmentView> Get() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return view_;
  }

 private:
  SegmentView::Legs legs_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const SegmentView> view_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone
