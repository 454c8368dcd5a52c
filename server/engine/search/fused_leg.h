// A leg whose items are ranked by two vectors of a query: the one that their own generation made of it, and the one of
// the generation that is asked, by whatever way leads that one there. Or by the first alone, where no way does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/adapter.h"
#include "geometry/bound_query.h"
#include "index/api/collection_index.h"
#include "index/api/search.h"
#include "server/engine/api/types.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/row_samples.h"
#include "stats/distance_fusion.h"
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
  // `older_query`, whose own request `older` is where it is exact; else `older` may find its candidates by another. The answer has the best hits by the
  // fused distance, at most so many: of the rows that either search found, or, where the requests are exact, surely of
  // all rows; then it searches again as often as that takes. A row that the adapter makes no vector of is left out.
  // Errors of the index and the store; DEADLINE_EXCEEDED; CANCELLED.
  absl::StatusOr<SearchResult> Finish(const DistanceFusion& fusion, const BoundQuery& older_query, SearchRequest older,
                                      SearchRequest newer, SearchResult by_older, SearchResult by_newer,
                                      int64_t hits_wanted) const;

 private:
  struct Row;
  // Fills in the distances that only one search found, from the stored embeddings.
  absl::Status Complete(const BoundQuery& older_query, const SearchRequest& newer, std::vector<Row>* rows) const;

  const IndexView* const view_;
  const Store* const store_;
  const uint32_t collection_;
  const CallContext* const context_;
};

// The two vectors of a query on the rows of a generation, each bound to its rows' space.
struct QueryPair {
  std::span<const float> older_vector;
  const BoundQuery& older;  // of that vector, whitened where the share is conditioned
  const BoundQuery& newer;
  const Adapter* carry = nullptr;  // makes of the generation's rows those that `newer` is bound to; nullptr: no need
};

// Whether shares may be conditioned.
bool MayCondition(const Space& item_space, const QueryPair& queries);

// The older vector, whitened over the sample's rows and bound to their space. nullopt where it has nothing particular.
std::optional<BoundQuery> Whitened(const RowSample& rows, const Space& space, std::span<const float> older_vector);

// Learns from a sample of the generation's rows, and of the same rows as the newer query sees them. The fused distances
// have the mean of `own_distances`, those of the newer vector to a sample of its own generation's rows, so that a mixed
// gallery prefers neither: what an adapter makes of rows lies nearer to their mean, and so to every query, than rows of
// the newer model. REQUIRES: both samples are as long.
DistanceFusion FusionOver(const RowSample& rows, const RowSample& seen_by_newer, const QueryPair& queries,
                          const OlderShare& share, std::span<const double> own_distances);

// Puts the hits of a leg that the older vector alone leads to on the scale of the query's distances to items of its own
// generation: both scales are over a sample of rows. As they are, where either sample is too small to say.
void Rescale(std::span<const double> older_distances, std::span<const double> own_distances, SearchResult* result);

}  // namespace lightcone::server
