#include "index/search/passing_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "index/graph/graph_walk.h"
#include "index/search/passing_rows.h"
#include "index/search/plan_cost.h"

namespace lightcone {
namespace {

// Where a walk was asked for and the rows that pass lie away from the query, very many are about as near, and the
// codes' proven error would let a quarter of the segment through. What rounding takes from a row's numbers knows
// nothing of the query: <a, h - h'> of codes.h deviates by |a| |h - h'| / sqrt(d), the proven error being |a| |h - h'|.
// So many deviations are allowed for.
constexpr double kDeviations = 3;

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
    facts_.for_recall = request_.target_recall > 0;
    facts_.fell_short = turn.fell_short;
    Expect(passing_.Share());
  }

  absl::StatusOr<Passed> Run(LateFilter& late) {
    const bool fell_short = facts_.fell_short;
    const bool asked_late = fell_short && !facts_.by_ids;  // then nothing but a scan is left
    const ChosenPlan chosen = asked_late ? ChosenPlan{SearchPlan::kPostFilter, 0} : Choose();
    bool done = false, walked = fell_short;
    if (chosen.ef > 0) {
      if (chosen.plan == SearchPlan::kWalk && !fell_short) return Passed::kAll;
      if (chosen.plan == SearchPlan::kPostFilter) {
        late = {{chosen.ef, WalkEvaluationsMax(facts_)}, facts_.share};
        return Passed::kLate;
      }
      LC_ASSIGN_OR_RETURN(done, Walk(chosen));
      walked = true;
    }
    const bool scan = !done && PlanOfScan(facts_) == SearchPlan::kPassingScan;
    if (request_.profile) {
      result_.segments.push_back({pinned_.segment->id(), chosen.plan, pinned_.rows, facts_.share, walked && !done});
    }
    if (scan) {
      LC_RETURN_IF_ERROR(ScanPassing());
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

  // As ChoosePlan, with what samples tell where a walk would be taken.
  ChosenPlan Choose() {
    constexpr int64_t kSampledForShare = 256;
    ChosenPlan chosen = ChoosePlan(facts_);
    const auto is = [&](SearchPlan plan) { return chosen.plan == plan; };
    if (is(SearchPlan::kPostFilter) && facts_.by_ids && !passing_.counted() && !facts_.fell_short) {
      Expect(passing_.Sample(kSampledForShare).share);
      chosen = ChoosePlan(facts_);
    }
    if (is(SearchPlan::kPassingWalk) && seeds_.empty()) {
      PassingRows::Sampled sampled = passing_.Sample();
      seeds_ = std::move(sampled.passing);
      Expect(sampled.share);
      chosen = ChoosePlan(facts_);
    }
    // Where many of the rows that a post-filter has met pass, those that do lie near: it is tried first.
    const bool in_doubt = is(SearchPlan::kPassingWalk) || facts_.fell_short;
    lie_away_ = in_doubt && facts_.by_ids && LieAway();
    return lie_away_ ? ChosenPlan{PlanOfScan(facts_), 0} : chosen;
  }

  // Whether the rows that pass lie away from the query: in a sample more others are nearer than all that pass than
  // chance allows. A walk has nothing to go by there: a few of very many that are about as near.
  bool LieAway() const {
    constexpr double kScoredMax = 1'024;
    constexpr double kByChance = 1e-6;
    if (facts_.cheap_share >= 1 || facts_.cheap_share <= 0) return false;
    const double too_many = std::log(kByChance) / std::log1p(-facts_.cheap_share);
    if (too_many >= kScoredMax * (1 - facts_.cheap_share)) return false;  // so few pass that no sample can tell
    const double enough = std::min(kScoredMax, std::ceil(1.5 * too_many / (1 - facts_.cheap_share)));
    const PassingRows::Sampled some = passing_.Sample(static_cast<int64_t>(enough));
    if (some.passing.empty()) return false;
    std::vector<float> scores(std::max(some.passing.size(), some.others.size()));
    Score(some.passing.data(), some.passing.size(), scores.data());
    const float nearest = *std::max_element(scores.data(), scores.data() + some.passing.size());
    Score(some.others.data(), some.others.size(), scores.data());
    const auto nearer = std::count_if(scores.data(), scores.data() + some.others.size(),
                                      [nearest](float score) { return score > nearest; });
    return static_cast<double>(nearer) > too_many;
  }

  ScoredRows Scorer() const {
    const CodeBlock* const codes = turn_.coded != nullptr ? pinned_.codes() : nullptr;
    return {pinned_.segment->block(), *request_.query, codes, turn_.coded};
  }
  void Score(const uint32_t* rows, size_t n, float* scores) const { Scorer()(rows, n, scores); }

  double ErrorOf(float score) const {
    return turn_.coded == nullptr ? turn_.error : turn_.coded->ErrorOf(score, pinned_.codes()->error_max);
  }

  // A row that passes, and that the filter keeps or is to be asked about.
  void Offer(uint32_t row, float score, double error, bool ask) {
    if (score + error < candidates_.floor()) return;
    if (!ask || turn_.context.Keeps(pinned_, row)) candidates_.Add(score, error, turn_.index, row);
  }

  absl::Status ScanPassing() {
    const double deviation = 1 / std::sqrt(static_cast<double>(pinned_.segment->space().dimension));
    const double likely = lie_away_ && turn_.coded != nullptr ? std::min(1.0, kDeviations * deviation) : 1.0;
    return passing_.ForEach([&](std::span<const uint32_t> rows) {
      return Scan(rows, [&](uint32_t row, float score) { Offer(row, score, likely * ErrorOf(score), /*ask=*/true); });
    });
  }

  // Rows that pass, at most kRowsACall.
  template <typename Take>
  absl::Status Scan(std::span<const uint32_t> rows, const Take& take) {
    std::array<float, kRowsACall> scores;
    Score(rows.data(), rows.size(), scores.data());
    for (size_t i = 0; i < rows.size(); ++i) take(rows[i], scores[i]);
    result_.rows_scored += static_cast<int64_t>(rows.size());
    return turn_.context.Interrupted();
  }

  // False when the graph did not give what a scan would surely give. What was found then stays out.
  absl::StatusOr<bool> Walk(const ChosenPlan& chosen) {
    const Graph& graph = *pinned_.segment->graph();
    const SearchContext& context = turn_.context;
    const WalkLimits limits{chosen.ef, WalkEvaluationsMax(facts_)};
    const ScoredRows score = Scorer();
    const auto interrupted = [&] { return context.Interrupted(); };
    const auto passes = [&](uint32_t row) { return passing_.Passes(row); };
    const auto keeps = [&](uint32_t row) { return context.Keeps(pinned_, row); };
    const auto both = [&](uint32_t row) { return passes(row) && keeps(row); };
    absl::StatusOr<WalkResult> walk = chosen.plan == SearchPlan::kPassingWalk
                                          ? WalkPassing(graph, score, limits, seeds_, passes, keeps, interrupted)
                                          : WalkGraph(graph, score, limits, both, interrupted);
    LC_RETURN_IF_ERROR(walk.status());
    result_.rows_scored += walk->evaluations;
    if (walk->gave_up || static_cast<int64_t>(walk->rows.size()) < turn_.wanted) return false;
    for (const ScoredRow& row : walk->rows) Offer(row.row, row.score, ErrorOf(row.score), /*ask=*/false);
    return true;
  }

  const SegmentTurn& turn_;
  const SearchRequest& request_;
  const PinnedSegment& pinned_;
  const PassingRows passing_;
  CandidateSet& candidates_;
  SearchResult& result_;
  FilterFacts facts_;
  std::vector<uint32_t> seeds_;  // rows that pass, of a sample
  bool lie_away_ = false;        // they are scanned for that
};

}  // namespace

absl::StatusOr<Passed> SearchPassing(const SegmentTurn& turn, CandidateSet& candidates, SearchResult& result,
                                     LateFilter& late) {
  return PassingSearch(turn, candidates, result).Run(late);
}

}  // namespace lightcone
