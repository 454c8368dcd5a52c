// A leg whose items are ranked by two vectors of a query: the one that their own generation made of it, and the one of
// the generation that is asked, by whatever way leads that one there. Or by the first alone, where no way does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "index/api/collection_index.h"
#include "index/api/search.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/query_fusion.h"
#include "store/store.h"

namespace lightcone::server {

// Hits that each of the two searches of a leg looks for, so that the best by both are among those of either.
int64_t FusedCandidates(int64_t hits_wanted);

// What likenesses have to know of a generation's rows, kept for queries that are answered together, so that each row is
// read once. Threads: one only.
class RowFeatures {
 public:
  // Beyond so many bytes rows are read again.
  explicit RowFeatures(size_t bytes_max = size_t{64} << 20) : bytes_max_(bytes_max) {}

  // Forgets all that was made by another sample.
  void Use(const RowSamplePtr& sample);

  const LikenessKernel& kernel() const { return *sample_->likeness(); }
  // Empty: not known.
  std::span<const float> Of(uint64_t internal_id) const;
  // Those of the row, which are kept from now on. Valid until the next call. REQUIRES: Use; the sample has a kernel.
  std::span<const float> Take(uint64_t internal_id, std::span<const float> row);

 private:
  const size_t bytes_max_;
  RowSamplePtr sample_;
  absl::flat_hash_map<uint64_t, size_t> places_;
  std::vector<float> features_, last_;
};

// Threads: Finish may run beside others' on the same view and samples.
class FusedLeg {
 public:
  // All must outlive it. `features`: of the sample that likenesses are of. `large`: held while a leg has all its rows
  // in memory, so that a call has one such at a time.
  FusedLeg(const IndexView* view, const Store* store, uint32_t collection, const CallContext* context,
           RowFeatures* features, absl::Mutex* large)
      : view_(view), store_(store), collection_(collection), context_(context), features_(features), large_(large) {}

  // Both requests look for the same rows, and have been answered by these results; `older` by the query's plain
  // distance. The answer has the best hits by the fused distance, at most so many: of the rows that either search
  // found, or, where the requests are exact, surely of all rows. Then it searches again as often as that takes, and by
  // a likeness reads every row. A row that the adapter makes no vector of is left out. RESOURCE_EXHAUSTED where these
  // are more than 4,194,304. Errors of the index and the
  // store; DEADLINE_EXCEEDED; CANCELLED.
  absl::StatusOr<SearchResult> Finish(const DistanceFusion& fusion, const OlderQuery& older_query, SearchRequest older,
                                      SearchRequest newer, SearchResult by_older, SearchResult by_newer,
                                      int64_t hits_wanted) const;

 private:
  struct Row;
  // Fills in the distances that are not known, from the stored embeddings.
  absl::Status Complete(const OlderQuery& older_query, const SearchRequest& newer, std::span<Row> rows) const;

  const IndexView* const view_;
  const Store* const store_;
  const uint32_t collection_;
  const CallContext* const context_;
  RowFeatures* const features_;
  absl::Mutex* const large_;
};

// Puts the hits of a leg that the older vector alone leads to on the scale of the query's distances to items of its own
// generation: both scales are over a sample of rows. As they are, where either sample is too small to say.
DistanceCalibration Rescale(std::span<const double> older_distances, std::span<const double> own_distances,
                            SearchResult* result);

}  // namespace lightcone::server
