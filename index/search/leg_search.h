// The search of one leg: one request over the pinned segments of one generation. Each segment is planned (plan.h) and
// searched by its plan; what the segments give goes into one candidate set, whose rows are then ranked.
// segment_search.cc runs several legs side by side, so that their walks and scans go together.
// Threads: one at a time.
#pragma once

#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dcheck.h"
#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "index/graph/graph_walk.h"
#include "index/search/candidates.h"
#include "index/search/plan.h"
#include "index/search/post_filter.h"
#include "index/search/scoped_request.h"

namespace lightcone {

inline constexpr int64_t kRowsABlock = 512;          // rows of one kernel call; their scores stay in the first cache
inline constexpr int64_t kRowsBetweenChecks = 4096;  // rows between looks at deadline and cancellation

// A walk that goes together with those of other segments.
struct PlannedWalk {
  uint32_t index = 0;  // number of the segment
  int64_t visible = 0;
  SegmentSearchPlan plan;
};

class LegSearch {
 public:
  explicit LegSearch(const ScopedRequest& scoped);
  LegSearch(const LegSearch&) = delete;
  LegSearch& operator=(const LegSearch&) = delete;

  const ScopedRequest& scoped() const { return scoped_; }
  const SearchRequest& request() const { return *scoped_.request; }
  const PinnedSegment& segment(uint32_t index) const { return (*scoped_.scope.segments)[index]; }
  const BoundQuery& query() const { return *request().query; }
  const CodeQuery& code_query() const { return *coded_query_; }
  int64_t k() const { return k_; }
  double floor() const { return candidates_.floor(); }  // rows whose score plus error is below it are no hits

  bool ok() const { return status_.ok(); }
  // Ends the search unless the status is OK. True: it goes on.
  bool Continue(const absl::Status& status) {
    status_.Update(status);
    return ok();
  }

  // Plans every segment and searches it, unless its walk or scan goes together with those of others: walks(), scans().
  void Begin();
  // Ranks the candidates. A deadline ends only what is left of several thousand.
  absl::StatusOr<SearchResult> Finish();

  // Binds the query to the codes and the error bound of the segment's rows.
  void Bind(uint32_t index);
  // Error bound of a row's score. REQUIRES: the segment is bound.
  double ErrorOf(uint32_t index, float score) const {
    LC_DCHECK(bound_ == index);
    const CodeBlock* const codes = segment(index).codes();
    return codes == nullptr ? error_ : coded_query_->ErrorOf(score, codes->error_max);
  }

  // Walks (walk.cc), of plan kWalk or kPostFilter.
  const std::vector<PlannedWalk>& walks(SearchPlan plan) const {
    return plan == SearchPlan::kPostFilter ? post_filters_ : walks_;
  }
  // Adds the walks' tasks. Their scores refer to code queries in `coded`.
  void AddTasks(SearchPlan plan, std::vector<WalkTask>& tasks, std::deque<CodeQuery>& coded);
  // Takes what the walks found, one result a walk. Rows whose score plus error is below `floor` are not needed.
  // `enough`: all legs together found their k rows. Segments whose walk failed are searched by their fallback.
  void TakeWalks(SearchPlan plan, std::span<const WalkResult> results, double floor, bool enough);

  // Scans (scan.cc): segments that are scanned together with those of other legs.
  std::vector<uint32_t>& scans() { return scans_; }
  void BeginScan(uint32_t index);
  // Least score of a row by its vector: no lower score reaches the floor with its error.
  float LeastScore() const {
    const double least = candidates_.floor() - error_;
    const float nearest = static_cast<float>(least);
    return nearest > least ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
  }
  // Take the hits among the rows from `begin` on.
  void TakeCodeHits(uint32_t index, int64_t begin, std::span<const CodeHit> hits);
  void TakeRowHits(uint32_t index, int64_t begin, std::span<const RowHit> hits);
  // Takes a row that a device found by codes of its own.
  void TakeDeviceRow(uint32_t index, float score, double error, uint32_t row);

 private:
  ScoredRows Scorer(uint32_t index) {
    const CodeBlock* const codes = segment(index).codes();
    return {segment(index).segment->block(), query(), codes, codes == nullptr ? nullptr : &*coded_query_};
  }
  void Note(uint32_t index, const SegmentSearchPlan& plan, bool fell_back);

  // What plans do at once.
  absl::Status Search(uint32_t index, SegmentSearchPlan plan);
  absl::Status Probe(uint32_t index, const SegmentSearchPlan& plan);
  void ProbeRows(uint32_t index, int64_t begin, int64_t end);
  absl::Status WalkAlone(uint32_t index, const SegmentSearchPlan& plan);
  absl::Status Scan(uint32_t index, SearchPlan scan, double error_share);
  absl::Status ScanPassing(uint32_t index, double error_share);
  absl::Status ReplacePostFilter(const PlannedWalk& walk);

  // Takes a row with the score of its vector. REQUIRES: the segment is bound.
  void TakeRow(uint32_t index, uint32_t row, float score) {
    LC_DCHECK(bound_ == index);
    if (score + error_ < candidates_.floor()) return;
    if (scoped_.Accepts(segment(index), row)) candidates_.Add(score, error_, index, row);
  }
  // Takes accepted rows by the scores of their vectors.
  void TakeByVectors(uint32_t index, std::span<const uint32_t> rows);

  // Ranking (rank.cc).
  absl::Status Refine();
  absl::Status Rank();

  const ScopedRequest scoped_;
  const int64_t k_;  // rows that the segments give together: the request's k, or the candidates to be adapted
  absl::Status status_;
  std::vector<PlannedWalk> walks_, post_filters_;
  std::vector<uint32_t> scans_;
  std::optional<uint32_t> bound_;  // the segment that the query is bound to
  double error_ = 0;               // error bound of its rows' float32 scores
  std::optional<CodeQuery> coded_query_;
  bool any_coded_ = false;  // codes may have scored some candidates
  CandidateSet candidates_;
  SearchResult result_;
};

// A segment of a leg.
struct LegSegment {
  LegSearch* leg = nullptr;
  uint32_t index = 0;
  friend bool operator==(const LegSegment&, const LegSegment&) = default;
};

// Walks the graphs of all legs. Legs whose walks failed have more scans afterwards.
void WalkLegs(std::vector<LegSearch*> legs);
// Scans what is to be scanned, by a device where there is one. A segment of several legs is read once.
void ScanLegs(std::deque<LegSearch>& legs);

}  // namespace lightcone
