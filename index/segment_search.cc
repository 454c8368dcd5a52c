#include "index/segment_search.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "geometry/kernels.h"
#include "index/adapted_search.h"
#include "index/candidates.h"
#include "index/graph_walk.h"
#include "index/search_context.h"

namespace lightcone {
namespace {

constexpr int64_t kRowsABlock = 512;          // one kernel call of a scan; its scores stay in the first cache
constexpr int64_t kRowsBetweenChecks = 4096;  // rows between looks at deadline and cancellation
constexpr int64_t kRerankBetweenChecks = 1024;
// A walk of breadth ef evaluates about this many rows per accepted result, at random addresses; a scan reads rows in
// order, which is about twice as fast per row. Both figures decide only speed, never which rows are found.
constexpr double kEvaluationsPerResult = 24;
constexpr double kRandomAccessCost = 2;

class Search {
 public:
  Search(const SearchScope& scope, const SearchRequest& request)
      : context_{scope, request},
        wanted_(request.adapter == nullptr ? request.k : AdaptedCandidates(request)),
        candidates_(wanted_) {}

  absl::StatusOr<SearchResult> Run() {
    LC_RETURN_IF_ERROR(context_.Interrupted());
    if (AdaptsEveryRow(context_.request)) {
      AdaptedRanking ranking(context_);
      LC_RETURN_IF_ERROR(ranking.AddAll());
      return ranking.Take();
    }
    for (size_t i = 0; i < context_.scope.segments->size(); ++i)
      LC_RETURN_IF_ERROR(SearchOne(static_cast<uint32_t>(i)));
    if (context_.request.adapter != nullptr) return RankAdapted();
    LC_RETURN_IF_ERROR(Rank());
    return std::move(result_);
  }

 private:
  absl::Status SearchOne(uint32_t index) {
    const SearchRequest& request = context_.request;
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    const int64_t visible = pinned.counts->Visible(request.view_generation);
    const double error = request.query->ScoreErrorMax(pinned.bias_max);
    const Graph* graph = pinned.segment->graph();
    if (!request.exact && graph != nullptr && visible > 0) {
      const int ef =
          static_cast<int>(std::max<int64_t>(request.ef > 0 ? request.ef : context_.scope.ef_default, wanted_));
      const double share = std::clamp(request.keep ? request.keep_share : 1.0, 0.0, 1.0) *
                           static_cast<double>(visible) / static_cast<double>(pinned.rows);
      const double walk_cost = kRandomAccessCost * kEvaluationsPerResult * ef;
      if (walk_cost < share * static_cast<double>(pinned.rows)) {
        LC_ASSIGN_OR_RETURN(const bool done, Walk(index, *graph, ef, visible, error));
        if (done) return absl::OkStatus();
      }
    }
    return Scan(index, error);
  }

  // False when the graph did not give what a scan would surely give.
  absl::StatusOr<bool> Walk(uint32_t index, const Graph& graph, int ef, int64_t visible, double error) {
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    const WalkLimits limits{ef, static_cast<int64_t>(static_cast<double>(pinned.rows) / kRandomAccessCost)};
    LC_ASSIGN_OR_RETURN(const WalkResult walk, WalkGraph(
                                                   graph, pinned.segment->block(), *context_.request.query, limits,
                                                   [&](uint32_t row) { return context_.Accepts(pinned, row); },
                                                   [&] { return context_.Interrupted(); }));
    result_.rows_scored += walk.evaluations;
    const int64_t enough = std::min(wanted_, context_.request.keep ? wanted_ : visible);
    if (walk.gave_up || static_cast<int64_t>(walk.rows.size()) < enough) return false;
    for (const ScoredRow& found : walk.rows) {
      if (found.score + error >= candidates_.floor()) candidates_.Add(found.score, error, index, found.row);
    }
    return true;
  }

  absl::Status Scan(uint32_t index, double error) {
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    const RowBlock& block = pinned.segment->block();
    std::array<float, kRowsABlock> scores;
    for (int64_t begin = 0; begin < pinned.rows; begin += kRowsABlock) {
      if (begin > 0 && begin % kRowsBetweenChecks == 0) LC_RETURN_IF_ERROR(context_.Interrupted());
      const int64_t n = std::min(kRowsABlock, pinned.rows - begin);
      ScoreRows(*context_.request.query, block.rows + static_cast<size_t>(begin) * block.stride, block.stride,
                block.factors + begin, static_cast<size_t>(n), scores.data());
      for (int64_t i = 0; i < n; ++i) {
        const float score = scores[static_cast<size_t>(i)];
        if (score + error < candidates_.floor()) continue;
        const uint32_t row = static_cast<uint32_t>(begin + i);
        if (context_.Accepts(pinned, row)) candidates_.Add(score, error, index, row);
      }
    }
    result_.rows_scored += pinned.rows;
    return absl::OkStatus();
  }

  absl::StatusOr<SearchResult> RankAdapted() {
    AdaptedRanking ranking(context_);
    LC_RETURN_IF_ERROR(ranking.Add(candidates_.Take()));
    SearchResult ranked = ranking.Take();
    ranked.rows_scored += result_.rows_scored;
    return ranked;
  }

  absl::Status Rank() {
    const std::vector<Candidate> rows = candidates_.Take();
    std::vector<SearchHit>& hits = result_.hits;
    hits.reserve(rows.size());
    for (const Candidate& candidate : rows) {
      if (hits.size() % kRerankBetweenChecks == kRerankBetweenChecks - 1) LC_RETURN_IF_ERROR(context_.Interrupted());
      const Segment& segment = *(*context_.scope.segments)[candidate.segment].segment;
      const RowBlock& block = segment.block();
      hits.push_back({block.ids[candidate.row], context_.request.query->Distance(segment.row(candidate.row)),
                      block.uncertainty[candidate.row]});
    }
    result_.rows_reranked = static_cast<int64_t>(hits.size());
    const size_t k = std::min(hits.size(), static_cast<size_t>(context_.request.k));
    std::partial_sort(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(k), hits.end(),
                      [](const SearchHit& x, const SearchHit& y) {
                        return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
                      });
    hits.resize(k);
    return absl::OkStatus();
  }

  const SearchContext context_;
  const int64_t wanted_;  // rows that the segments give between them: k, or those to be carried
  CandidateSet candidates_;
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> SearchSegments(const SearchScope& scope, const SearchRequest& request) {
  if (request.k < 1) return InvalidField("k", StrCat(request.k), "1 or more");
  if (request.ef < 0) return InvalidField("ef", StrCat(request.ef), "0 (the default) or more");
  return Search(scope, request).Run();
}

}  // namespace lightcone
