#include "index/passing_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "index/filter_plan.h"
#include "index/graph_walk.h"
#include "index/passing_rows.h"

namespace lightcone {
namespace {

class PassingSearch {
 public:
  PassingSearch(const SegmentTurn& turn, CandidateSet& candidates, SearchResult& result)
      : turn_(turn),
        request_(turn.context.request),
        pinned_((*turn.context.scope.segments)[turn.index]),
        passing_(turn.context, pinned_),
        candidates_(candidates),
        result_(result) {
    facts_.rows = pinned_.rows;
    facts_.by_ids = request_.ids != nullptr;
    facts_.listed = passing_.listed();
    facts_.asks = static_cast<bool>(request_.keep);
    facts_.wanted = turn.wanted;
    facts_.breadth = turn.breadth > 0 ? std::max(turn.breadth, turn.wanted) : 0;
    Expect(passing_.Share());
    if (ChoosePlan(facts_).plan == SearchPlan::kPassingWalk) Expect(passing_.Sample(&seeds_, &others_));
  }

  absl::StatusOr<Passed> Run() {
    ChosenPlan chosen = ChoosePlan(facts_);
    if (chosen.plan == SearchPlan::kPassingWalk && facts_.by_ids && LieAway()) chosen = {PlanOfScan(facts_), 0};
    if (chosen.plan == SearchPlan::kScan) return Passed::kToScan;
    if (chosen.plan == SearchPlan::kWalk) return Passed::kAll;
    bool done = false;
    if (chosen.plan != SearchPlan::kPassingScan) {
      LC_ASSIGN_OR_RETURN(done, Walk(chosen));
    }
    const bool scan = !done && (chosen.ef == 0 || PlanOfScan(facts_) == SearchPlan::kPassingScan);
    if (request_.profile && (done || scan)) {
      result_.segments.push_back(
          {pinned_.segment->id(), chosen.plan, pinned_.rows, facts_.share, chosen.ef > 0 && !done});
    }
    if (scan) {
      LC_RETURN_IF_ERROR(passing_.ForEach([this](std::span<const uint32_t> rows) { return Scan(rows); }));
    }
    return done || scan ? Passed::kDone : Passed::kToScan;
  }

 private:
  static constexpr size_t kRowsACall = 512;

  // `share`: of the rows that pass.
  void Expect(double share) {
    facts_.cheap_share = share;
    facts_.share = facts_.asks ? std::min(share, std::clamp(request_.keep_share, 0.0, 1.0)) : share;
  }

  // Whether the rows that pass lie away from the query: in a sample more others are nearer than all that pass than chance
  // allows. A walk by passing rows alone has nothing to go by there: a few of very many that are about as near.
  bool LieAway() const {
    constexpr size_t kScored = 256;
    constexpr double kByChance = 1e-6;
    if (seeds_.empty() || facts_.cheap_share >= 1) return false;
    const auto some = [](const std::vector<uint32_t>& rows, size_t n) {
      std::vector<uint32_t> taken;
      for (size_t i = 0; i < n; ++i) taken.push_back(rows[i * rows.size() / n]);
      return taken;
    };
    const double passing = std::max(1.0, kScored * facts_.cheap_share);
    const auto mine = some(seeds_, std::min(seeds_.size(), static_cast<size_t>(passing)));
    const auto theirs = some(others_, std::min(others_.size(), kScored - mine.size()));
    std::array<float, kScored> scores;
    Score(mine.data(), mine.size(), scores.data());
    const float nearest = *std::max_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(mine.size()));
    Score(theirs.data(), theirs.size(), scores.data());
    const auto nearer = std::count_if(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(theirs.size()),
                                      [nearest](float score) { return score > nearest; });
    return static_cast<double>(nearer) > std::log(kByChance) / std::log1p(-facts_.cheap_share);
  }

  // By codes where the segment has them.
  void Score(const uint32_t* rows, size_t n, float* scores) const {
    if (turn_.coded != nullptr) {
      const CodeBlock& codes = *pinned_.segment->codes();
      ScoreCodesGathered(*turn_.coded, codes.rows, codes.stride, rows, n, scores);
    } else {
      const RowBlock& block = pinned_.segment->block();
      ScoreRowsGathered(*request_.query, block.rows, block.stride, block.factors, rows, n, scores);
    }
  }

  // A row that passes, and that the filter keeps or is to be asked about.
  void Offer(uint32_t row, float score, bool ask) {
    const double error =
        turn_.coded == nullptr ? turn_.error : turn_.coded->ErrorOf(score, pinned_.segment->codes()->error_max);
    if (score + error < candidates_.floor()) return;
    if (!ask || turn_.context.Keeps(pinned_, row)) candidates_.Add(score, error, turn_.index, row);
  }

  // Rows that pass, at most kRowsACall.
  absl::Status Scan(std::span<const uint32_t> rows) {
    std::array<float, kRowsACall> scores;
    Score(rows.data(), rows.size(), scores.data());
    for (size_t i = 0; i < rows.size(); ++i) Offer(rows[i], scores[i], /*ask=*/true);
    result_.rows_scored += static_cast<int64_t>(rows.size());
    return turn_.context.Interrupted();
  }

  // False when the graph did not give what a scan would surely give.
  absl::StatusOr<bool> Walk(const ChosenPlan& chosen) {
    const Graph& graph = *pinned_.segment->graph();
    const SearchContext& context = turn_.context;
    const WalkLimits limits{chosen.ef, WalkEvaluationsMax(facts_)};
    const auto score = [this](const uint32_t* rows, size_t n, float* scores) { Score(rows, n, scores); };
    const auto interrupted = [&] { return context.Interrupted(); };
    const bool late = chosen.plan == SearchPlan::kPostFilter;
    absl::StatusOr<WalkResult> walk =
        late ? WalkGraph(graph, score, limits, [](uint32_t) { return true; }, interrupted)
             : WalkPassing(
                   graph, score, limits, seeds_, [&](uint32_t row) { return passing_.Passes(row); },
                   [&](uint32_t row) { return context.Keeps(pinned_, row); }, interrupted);
    LC_RETURN_IF_ERROR(walk.status());
    result_.rows_scored += walk->evaluations;
    if (late) std::erase_if(walk->rows, [&](const ScoredRow& row) { return !context.Accepts(pinned_, row.row); });
    if (walk->gave_up || static_cast<int64_t>(walk->rows.size()) < turn_.wanted) return false;
    for (const ScoredRow& row : walk->rows) Offer(row.row, row.score, /*ask=*/false);
    return true;
  }

  const SegmentTurn& turn_;
  const SearchRequest& request_;
  const PinnedSegment& pinned_;
  const PassingRows passing_;
  CandidateSet& candidates_;
  SearchResult& result_;
  FilterFacts facts_;
  std::vector<uint32_t> seeds_, others_;  // of a sample: rows that pass, and those that do not
};

}  // namespace

absl::StatusOr<Passed> SearchPassing(const SegmentTurn& turn, CandidateSet& candidates, SearchResult& result) {
  return PassingSearch(turn, candidates, result).Run();
}

}  // namespace lightcone
