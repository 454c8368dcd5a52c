// Carries the rows of a sealed segment, flat or with a graph, through an item adapter into the adapter's target space.
// Its files are a sealed segment of that space, with the rows at the same places. A search meets an AdaptedSegment: the
// carried vectors with the ids and states of the original rows.
//
// Threads: functions are reentrant; an AdaptedSegment is what segment.h says, and const.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/adapter.h"
#include "index/api/collection_index.h"
#include "index/build/sealed_segment.h"

namespace lightcone {

// Immutable.
struct CarriedSegment {
  std::shared_ptr<const SealedSegment> files;
  bool old_graph = false;       // searches use the original segment's graph
  std::vector<RecallAt> walks;  // measured recall along that graph
};

class AdaptedSegment final : public Segment {
 public:
  // `states` (nullptr: the segment's own) must outlive this. REQUIRES: `carried` was made of the segment's rows.
  AdaptedSegment(std::shared_ptr<const Segment> segment, std::shared_ptr<const CarriedSegment> carried,
                 const RowStates* states = nullptr);

  std::string_view kind() const override { return carried_->files->kind(); }
  const Graph* graph() const override { return carried_->old_graph ? segment_->graph() : carried_->files->graph(); }
  const CodeBlock* codes() const override { return carried_->files->codes(); }
  std::span<const RecallAt> measured() const override {
    return carried_->old_graph ? carried_->walks : carried_->files->measured();
  }
  bool ordered_by_id() const override { return segment_->ordered_by_id(); }
  std::optional<int64_t> Find(uint64_t internal_id) const override { return segment_->Find(internal_id); }
  int64_t mapped_bytes() const override { return carried_->files->mapped_bytes(); }
  int64_t heap_bytes() const override { return 0; }

  // Whether a search found the files damaged: they have to be made again.
  bool files_damaged() const {
    if (damaged()) carried_->files->MarkDamaged();
    return carried_->files->damaged();
  }

 private:
  const std::shared_ptr<const Segment> segment_;
  const std::shared_ptr<const CarriedSegment> carried_;
};

// Most bytes of disk that a carried segment takes, its graph included.
int64_t CarriedBytes(const SealedSegment& segment, const Adapter& adapter, const IndexSettings& settings);

// Input of the steps below. The settings are the collection's; their build_threads carry the rows.
struct CarryPlan {
  std::shared_ptr<const SealedSegment> segment;
  const Adapter* adapter = nullptr;
  IndexSettings settings;
};

// Carries the rows and writes them as a flat segment, with codes where the settings ask for them, to `folder`: there as
// a whole or not at all. INVALID_ARGUMENT naming the row when the adapter makes no vector of one; CANCELLED when
// `stop` says so; RESOURCE_EXHAUSTED on a full disk.
absl::StatusOr<std::shared_ptr<SealedSegment>> CarryRows(const CarryPlan& plan, const std::string& folder,
                                                         const std::function<bool()>& stop);

// Whether the segment's own graph finds carried rows as well as its own rows. `walks` gets the measured recall. False
// for a segment without a graph. CANCELLED.
absl::StatusOr<bool> OldGraphHolds(const CarryPlan& plan, const std::shared_ptr<const SealedSegment>& carried,
                                   const std::function<bool()>& stop, std::vector<RecallAt>* walks);

// Writes the carried rows to `folder` with a graph that is built over them. Errors as CarryRows.
absl::StatusOr<std::shared_ptr<SealedSegment>> GraphCarried(const CarryPlan& plan,
                                                            const std::shared_ptr<SealedSegment>& carried,
                                                            const std::string& vectors_file, const std::string& folder,
                                                            const std::function<bool()>& stop);

}  // namespace lightcone
