#include "index/segment_search.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/codes.h"
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
        candidates_(wanted_) {
    if (request.query != nullptr) coded_query_.emplace(*request.query);
  }

  absl::StatusOr<SearchResult> Run() {
    LC_RETURN_IF_ERROR(context_.Interrupted());
    if (AdaptsEveryRow(context_.request)) {
      AdaptedRanking ranking(context_);
      LC_RETURN_IF_ERROR(ranking.AddAll());
      return ranking.Take();
    }
    for (size_t i = 0; i < context_.scope.segments->size(); ++i)
      LC_RETURN_IF_ERROR(SearchOne(static_cast<uint32_t>(i)));
    LC_RETURN_IF_ERROR(Refine());
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
    const RowBlock& block = pinned.segment->block();
    const CodeBlock* const codes = pinned.segment->codes();
    if (codes != nullptr) coded_query_->TurnTo(*codes);
    const auto score = [&](const uint32_t* ids, size_t n, float* scores) {
      if (codes != nullptr) {
        ScoreCodesGathered(*coded_query_, codes->rows, codes->stride, ids, n, scores);
      } else {
        ScoreRowsGathered(*context_.request.query, block.rows, block.stride, block.factors, ids, n, scores);
      }
    };
    // A row's state is another place in memory: not looked at where every row counts.
    const bool everything = visible == pinned.rows && !context_.request.keep;
    const WalkLimits limits{ef, static_cast<int64_t>(static_cast<double>(pinned.rows) / kRandomAccessCost)};
    LC_ASSIGN_OR_RETURN(
        const WalkResult walk,
        WalkGraph(
            graph, score, limits, [&](uint32_t row) { return everything || context_.Accepts(pinned, row); },
            [&] { return context_.Interrupted(); }));
    result_.rows_scored += walk.evaluations;
    const int64_t enough = std::min(wanted_, context_.request.keep ? wanted_ : visible);
    if (walk.gave_up || static_cast<int64_t>(walk.rows.size()) < enough) return false;
    coded_ = coded_ || codes != nullptr;
    for (const ScoredRow& found : walk.rows) {
      if (codes != nullptr) error = coded_query_->ErrorOf(found.score, codes->error_max);
      if (found.score + error >= candidates_.floor()) candidates_.Add(found.score, error, index, found.row);
    }
    return true;
  }

  absl::Status Scan(uint32_t index, double error) {
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    const CodeBlock* const codes = pinned.segment->codes();
    if (codes != nullptr) return ScanCoded(index, *codes);
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

  absl::Status ScanCoded(uint32_t index, const CodeBlock& codes) {
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    std::array<CodeHit, kRowsABlock> hits;
    coded_query_->TurnTo(codes);
    coded_ = true;
    for (int64_t begin = 0; begin < pinned.rows; begin += kRowsABlock) {
      if (begin > 0 && begin % kRowsBetweenChecks == 0) LC_RETURN_IF_ERROR(context_.Interrupted());
      const size_t n = static_cast<size_t>(std::min(kRowsABlock, pinned.rows - begin));
      const float floor = static_cast<float>(candidates_.floor());  // to the nearest: slack has room for that
      const size_t found = ScanCodes(*coded_query_, codes.rows + static_cast<size_t>(begin) * codes.stride,
                                     codes.stride, n, floor, hits.data());
      for (size_t i = 0; i < found; ++i) {
        const CodeHit& hit = hits[i];
        if (double{hit.score} + hit.error < candidates_.floor()) continue;
        const uint32_t row = static_cast<uint32_t>(begin) + hit.row;
        if (context_.Accepts(pinned, row)) candidates_.Add(hit.score, hit.error, index, row);
      }
    }
    result_.rows_scored += pinned.rows;
    return absl::OkStatus();
  }

  // Candidates by their codes are many: scores of their vectors leave about as many as are wanted.
  absl::Status Refine() {
    if (!coded_) return absl::OkStatus();
    std::vector<Candidate> coarse = candidates_.Take();
    std::sort(coarse.begin(), coarse.end(), [](const Candidate& x, const Candidate& y) {
      return x.segment != y.segment ? x.segment < y.segment : x.row < y.row;
    });
    candidates_ = CandidateSet(wanted_);
    std::array<uint32_t, kRowsABlock> ids;
    std::array<float, kRowsABlock> scores;
    for (size_t begin = 0; begin < coarse.size();) {
      const uint32_t index = coarse[begin].segment;
      size_t n = 0;
      while (n < ids.size() && begin + n < coarse.size() && coarse[begin + n].segment == index) {
        ids[n] = coarse[begin + n].row;
        ++n;
      }
      LC_RETURN_IF_ERROR(context_.Interrupted());
      const PinnedSegment& pinned = (*context_.scope.segments)[index];
      const RowBlock& block = pinned.segment->block();
      const double error = context_.request.query->ScoreErrorMax(pinned.bias_max);
      ScoreRowsGathered(*context_.request.query, block.rows, block.stride, block.factors, ids.data(), n, scores.data());
      for (size_t i = 0; i < n; ++i) {
        if (scores[i] + error >= candidates_.floor()) candidates_.Add(scores[i], error, index, ids[i]);
      }
      begin += n;
    }
    result_.rows_refined = static_cast<int64_t>(coarse.size());
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
  std::optional<CodeQuery> coded_query_;
  CandidateSet candidates_;
  bool coded_ = false;  // some candidates are there by their codes
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> SearchSegments(const SearchScope& scope, const SearchRequest& request) {
  if (request.k < 1) return InvalidField("k", StrCat(request.k), "1 or more");
  if (request.ef < 0) return InvalidField("ef", StrCat(request.ef), "0 (the default) or more");
  return Search(scope, request).Run();
}

}  // namespace lightcone
