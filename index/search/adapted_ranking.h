// Ranks rows by their distance in the target space of an item adapter: candidates that a search of the rows' own space
// found, or every row. Distances are exact: float64 from the adapted float32 vector.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/rows/adapted_rows.h"
#include "index/search/candidates.h"
#include "index/search/scoped_request.h"
#include "index/search/top_hits.h"

namespace lightcone {

// Whether a search has to adapt every row: it is exact, or no query leads into the rows' own space.
inline bool AdaptsEveryRow(const SearchRequest& request) {
  return request.adapter != nullptr && (request.exact || request.query == nullptr);
}

// The number of candidates of the rows' own space that are adapted when not all rows are: at least
// kAdaptedCandidatesMin, and more for a larger k or ef.
int64_t AdaptedCandidates(const SearchRequest& request);

class AdaptedRanking {
 public:
  // REQUIRES: the request has an adapter and a query that is bound to the adapter's target.
  explicit AdaptedRanking(const ScopedRequest& scoped);

  // Offers every row of the scope that the view serves and the filter keeps. CANCELLED, DEADLINE_EXCEEDED.
  absl::Status AddAll();
  // Offers these rows of the scope. Errors as AddAll; a deadline ends only what is left of several thousand.
  absl::Status Add(std::span<const Candidate> rows);

  SearchResult Take();

 private:
  absl::Status AddSegment(const PinnedSegment& pinned);
  void AddBlock(const PinnedSegment& pinned, int64_t begin, const AdaptedBlock& block);
  // Keeps the row until there are enough to adapt together.
  absl::Status Gather(const PinnedSegment& pinned, uint32_t row);
  absl::Status Flush();
  void Offer(const PinnedSegment& pinned, uint32_t row, std::span<const float> adapted);

  const ScopedRequest& scoped_;
  const SearchRequest& request_;
  TopHits top_;
  SearchResult result_;
  std::vector<std::pair<const PinnedSegment*, uint32_t>> waiting_;
  std::vector<float> waiting_vectors_;  // vectors of the waiting rows, side by side
};

// The answer of a request that adapts every row.
absl::StatusOr<SearchResult> RankEveryRow(const ScopedRequest& scoped);

}  // namespace lightcone
