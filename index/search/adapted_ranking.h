// Ranks rows as an item adapter carries them into another space: the candidates that a search of the rows' own space
// found, or every row. Distances are exact: float64 from the carried float32 vector.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "index/api/collection_index.h"
#include "index/rows/adapted_rows.h"
#include "index/search/candidates.h"
#include "index/search/search_context.h"

namespace lightcone {

// The k nearest hits of those offered: ascending distance, ties by internal id.
class TopHits {
 public:
  // REQUIRES: k >= 1.
  explicit TopHits(int64_t k) : k_(static_cast<size_t>(k)) {}

  // No hit beyond this distance gets in; +inf until there are k.
  double worst() const { return hits_.size() < k_ ? std::numeric_limits<double>::infinity() : hits_.front().distance; }
  bool Add(const SearchHit& hit);  // true when it got in
  std::vector<SearchHit> Take();

 private:
  const size_t k_;
  std::vector<SearchHit> hits_;  // a heap, the farthest first
};

// Whether a search has to carry every row: it is to be exact, or nothing leads into the rows' own space.
inline bool AdaptsEveryRow(const SearchRequest& request) {
  return request.adapter != nullptr && (request.exact || request.query == nullptr);
}

// The number of candidates of the rows' own space that are adapted when not all rows are: at least
// kAdaptedCandidatesMin, and more for a larger k or ef.
int64_t AdaptedCandidates(const SearchRequest& request);

class AdaptedRanking {
 public:
  // REQUIRES: the request has an adapter and a query that is bound to the adapter's target.
  explicit AdaptedRanking(const SearchContext& context) : context_(context), top_(context.request.k) {}

  // Offers every row of the scope that the view serves and the filter keeps. CANCELLED, DEADLINE_EXCEEDED.
  absl::Status AddAll();
  // Offers these rows of the scope. Errors as AddAll; a deadline ends only what is left of several thousand.
  absl::Status Add(std::span<const Candidate> rows);

  SearchResult Take();

 private:
  absl::Status AddSegment(const PinnedSegment& pinned);
  void AddKept(const PinnedSegment& pinned, int64_t begin, const AdaptedBlock& block);
  // The row waits until there are enough to carry together.
  absl::Status Gather(const PinnedSegment& pinned, uint32_t row);
  absl::Status Flush();
  void Offer(const PinnedSegment& pinned, uint32_t row, std::span<const float> adapted);

  const SearchContext& context_;
  TopHits top_;
  SearchResult result_;
  std::vector<std::pair<const PinnedSegment*, uint32_t>> waiting_;
  std::vector<float> waiting_vectors_;  // of the same rows, side by side
};

}  // namespace lightcone
