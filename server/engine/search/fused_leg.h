// A leg whose items are ranked by two vectors of a query: the one that their own generation made of it, and the one of
// the generation that is asked, by whatever way leads that one there. Or by the first alone, where no way does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "index/api/collection_index.h"
#include "index/api/search.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/query_fusion.h"
#include "store/store.h"

namespace lightcone::server {

// Hits that each of the two searches of a leg looks for, so that the best by both are among those of either.
int64_t FusedCandidates(int64_t hits_wanted);

// Threads: Finish may run beside others' on the same view and samples.
class FusedLeg {
 public:
  // All must outlive it.
  FusedLeg(const IndexView* view, const Store* store, uint32_t collection, const CallContext* context)
      : view_(view), store_(store), collection_(collection), context_(context) {}

  // Both requests look for the same rows, and have been answered by these results. Older distances are those to
  // `older_query`, whose own request `older` is where it is exact; else `older` may find its candidates by another. The
  // answer has the best hits by the fused distance, at most so many: of the rows that either search found, or, where
  // the requests are exact, surely of all rows; then it searches again as often as that takes. A row that the adapter
  // makes no vector of is left out. Errors of the index and the store; DEADLINE_EXCEEDED; CANCELLED.
  absl::StatusOr<SearchResult> Finish(const DistanceFusion& fusion, const BoundQuery& older_query, SearchRequest older,
                                      SearchRequest newer, SearchResult by_older, SearchResult by_newer,
                                      int64_t hits_wanted) const;

 private:
  struct Row;
  // Fills in the distances that are not known, from the stored embeddings.
  absl::Status Complete(const BoundQuery& older_query, const SearchRequest& newer, std::vector<Row>* rows) const;

  const IndexView* const view_;
  const Store* const store_;
  const uint32_t collection_;
  const CallContext* const context_;
};

// Puts the hits of a leg that the older vector alone leads to on the scale of the query's distances to items of its own
// generation: both scales are over a sample of rows. As they are, where either sample is too small to say.
void Rescale(std::span<const double> older_distances, std::span<const double> own_distances, SearchResult* result);

}  // namespace lightcone::server
