#include "index/search/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/dcheck.h"
#include "index/ivf/lists.h"
#include "index/rows/measured_recall.h"
#include "index/search/passing_rows.h"
#include "index/search/plan_cost.h"

namespace lightcone {
namespace {

// Rows that a filter leaves in the probed lists, for each result. With fewer, the nearest rows may well lie elsewhere.
constexpr double kAcceptedPerResult = 32;
constexpr int64_t kSampledForShare = 256;
// A walk shares a candidate queue with others only where it needs at most a half of its breadth.
constexpr int kSharedShare = 2;

// Passing rows that lie away from the query are about equally near, and the codes' proven error would let a quarter of
// the segment through. The error of one code knows nothing of the query: <a, h - h'> of codes.h deviates by
// |a| |h - h'| / sqrt(d), while the proven error is |a| |h - h'|. A scan allows for this many deviations.
constexpr double kDeviations = 3;

class Planner {
 public:
  explicit Planner(const PlanInput& input)
      : input_(input),
        request_(*input.scoped.request),
        pinned_(input.segment),
        segment_(*input.segment.segment),
        passing_(input.scoped, input.segment) {}

  SegmentSearchPlan Plan() {
    const int64_t breadth = Breadth();
    SegmentSearchPlan plan = PlanFor(breadth);
    const bool scans = plan.plan == SearchPlan::kScan || plan.plan == SearchPlan::kPassingScan;
    plan.reason = scans && breadth > 0 ? BreadthReason::kCheaper : reason_;
    return plan;
  }

 private:
  SegmentSearchPlan PlanFor(int64_t breadth) {
    if (!input_.fell_short) {
      if (std::optional<SegmentSearchPlan> probe = PlanProbe(breadth)) return *std::move(probe);
      if (input_.scoped.EveryRowPasses(pinned_)) return PlanPlainWalk(breadth);
    }
    SegmentSearchPlan plan = PlanFiltered(segment_.graph() == nullptr ? 0 : breadth);
    // Nearly all rows pass: the segment takes part in the walk over all graphs.
    return plan.plan == SearchPlan::kWalk && !input_.fell_short ? PlanPlainWalk(breadth) : plan;
  }

  // `ef` of a walk, or the number of lists to probe; 0: the segment has to be scanned. Sets reason_.
  int64_t Breadth() {
    if (request_.exact || (segment_.lists() == nullptr && segment_.graph() == nullptr)) return 0;
    const bool lists = segment_.lists() != nullptr;
    if (request_.target_recall > 0) {
      const int needed = lists ? ProbesFor(segment_.measured(), request_.target_recall, input_.k)
                               : BreadthFor(segment_.measured(), request_.target_recall, input_.k);
      return Because(needed > 0 ? BreadthReason::kTarget : BreadthReason::kUnreached, needed);
    }
    // `nprobe` counts the lists of the collection's settings; a provisional segment's lists are others.
    if (lists && segment_.provisional()) {
      return Because(BreadthReason::kMeasured,
                     std::max(request_.nprobe, ProvisionalProbes(segment_.measured(), input_.k)));
    }
    const int asked = lists ? request_.nprobe : request_.ef;
    return asked > 0 ? Because(BreadthReason::kAsked, asked) : DefaultBreadthOf(lists);
  }

  int64_t DefaultBreadthOf(bool lists) {
    const SearchScope& scope = input_.scoped.scope;
    const int by_settings = lists ? scope.nprobe_default : scope.ef_default;
    int breadth = by_settings;
    if (!lists) {
      breadth = DefaultBreadth(segment_.measured(), by_settings, request_.k);
    } else if (by_settings == 0) {
      breadth = DefaultProbes(segment_.measured(), input_.k);
      // A scan of rows without other codes reads all vectors: an older segment waits for its rewrite (rewrites.cc).
      if (breadth == 0 && segment_.pq() != nullptr) breadth = ProvisionalProbes(segment_.measured(), input_.k);
    }
    if (breadth == 0) return Because(BreadthReason::kUnreached, 0);
    if (request_.breadth_factor > 1) {
      return Because(BreadthReason::kWidened, static_cast<int64_t>(breadth * request_.breadth_factor));
    }
    return Because(breadth == by_settings ? BreadthReason::kSettings : BreadthReason::kMeasured, breadth);
  }

  int64_t Because(BreadthReason reason, int64_t breadth) {
    reason_ = reason;
    return breadth;
  }

  // Whether a walk has to go alone: its breadth was measured alone, and of a shared queue it may get a small part.
  bool GoesAlone() const {
    if (request_.target_recall > 0) return true;
    if (request_.ef > 0 || segment_.measured().empty()) return false;
    if (request_.breadth_factor > 1) return true;
    // For ten rows: how many are wanted says nothing of how hard they are to find.
    const int needed = BreadthFor(segment_.measured(), kTrustedRecall, kCalibrationK);
    return needed == 0 || needed > input_.scoped.scope.ef_default / kSharedShare;
  }

  // Breadth that was measured to find enough, of a search that names none; 0: it names one, or nothing was measured.
  int64_t NeededByDefault() const {
    if (request_.ef > 0 || segment_.graph() == nullptr) return 0;
    return BreadthFor(segment_.measured(), kTrustedRecall, kCalibrationK);
  }

  double KeepShare() const { return request_.keep ? std::clamp(request_.keep_share, 0.0, 1.0) : 1.0; }

  // Share of the rows that the view serves and that `keep` is expected to pass.
  double ServedShare() const {
    return KeepShare() * static_cast<double>(input_.scoped.VisibleRows(pinned_)) / static_cast<double>(pinned_.rows);
  }

  // More lists than `nprobe` where these hold fewer than kAcceptedPerResult rows that pass for each result; none where
  // that would be a scan of everything.
  std::optional<SegmentSearchPlan> PlanProbe(int64_t nprobe) const {
    const Lists* const lists = segment_.lists();
    if (nprobe <= 0 || lists == nullptr) return std::nullopt;
    // Rows that pass a filter may lie where no near list is, and provisional lists were never measured with one.
    if (segment_.provisional() && input_.scoped.IsFiltered()) return std::nullopt;
    double share = ServedShare();
    if (request_.ids != nullptr) share = std::min(share, passing_.Share());
    if (share <= 0) return std::nullopt;
    const double rows_a_list = static_cast<double>(pinned_.rows) / lists->count();
    const double needed = kAcceptedPerResult * static_cast<double>(input_.k) / (share * rows_a_list);
    if (std::max(static_cast<double>(nprobe), needed) >= lists->count()) return std::nullopt;
    return SegmentSearchPlan{
        .plan = SearchPlan::kProbe, .breadth = std::max(nprobe, static_cast<int64_t>(needed)), .passing_share = share};
  }

  // A walk by all rows, together with those of other segments, or a scan where that is cheaper.
  SegmentSearchPlan PlanPlainWalk(int64_t breadth) const {
    const double share = ServedShare();
    const int64_t ef = std::max(breadth, input_.k);
    if (breadth <= 0 || segment_.graph() == nullptr ||
        WalkCost(static_cast<double>(ef)) >= share * static_cast<double>(pinned_.rows)) {
      return {};
    }
    return {.plan = SearchPlan::kWalk,
            .breadth = ef,
            .evaluations_max = WalkEvaluationsMax({.rows = pinned_.rows}),
            .passing_share = share,
            .alone = GoesAlone()};
  }

  SegmentSearchPlan PlanFiltered(int64_t breadth) {
    FilterFacts facts{.rows = pinned_.rows,
                      .by_ids = request_.ids != nullptr,
                      .listed = passing_.listed(),
                      .asks = static_cast<bool>(request_.keep),
                      .fell_short = input_.fell_short,
                      .breadth = breadth > 0 ? std::max(breadth, input_.k) : 0,
                      .for_recall = request_.target_recall > 0,
                      .needed = NeededByDefault(),
                      .k = input_.k};
    SegmentSearchPlan plan;
    const auto choose = [&](double share) {
      facts.cheap_share = share;
      facts.share = facts.asks ? std::min(share, KeepShare()) : share;
      const ChosenPlan chosen = ChoosePlan(facts);
      plan.plan = chosen.plan;
      plan.breadth = chosen.ef;
    };
    choose(passing_.Share());
    // Samples tell more than counts where a walk would be taken.
    if (plan.plan == SearchPlan::kPostFilter && facts.by_ids && !passing_.counted()) {
      choose(passing_.Sample(kSampledForShare).share);
    }
    if (plan.plan == SearchPlan::kPassingWalk) {
      PassingRows::Sampled sampled = passing_.Sample();
      plan.seeds = std::move(sampled.passing);
      choose(sampled.share);
    }
    plan.alone = GoesAlone();
    plan.fallback = PlanOfScan(facts);
    plan.evaluations_max = WalkEvaluationsMax(facts);
    plan.passing_share = facts.share;
    // A post-filter that found enough passing rows shows that they lie near: it is tried before the sample is scored.
    const bool in_doubt = plan.plan == SearchPlan::kPassingWalk || facts.fell_short;
    if (in_doubt && facts.by_ids && LieAway(facts.cheap_share)) {
      plan.plan = plan.fallback;
      if (input_.score.codes != nullptr) {
        plan.error_share = std::min(1.0, kDeviations / std::sqrt(static_cast<double>(segment_.space().dimension)));
      }
    }
    return plan;
  }

  // Whether the passing rows lie away from the query: in a sample more others are nearer than every passing row than
  // chance allows. A walk finds no way there, among very many rows that are about equally near.
  bool LieAway(double passing_share) const {
    constexpr double kScoredMax = 1'024;
    constexpr double kByChance = 1e-6;
    if (passing_share >= 1 || passing_share <= 0) return false;
    const double too_many = std::log(kByChance) / std::log1p(-passing_share);
    if (too_many >= kScoredMax * (1 - passing_share)) return false;  // no sample can tell: too few rows pass
    const double enough = std::min(kScoredMax, std::ceil(1.5 * too_many / (1 - passing_share)));
    const PassingRows::Sampled sampled = passing_.Sample(static_cast<int64_t>(enough));
    if (sampled.passing.empty()) return false;
    const std::vector<float> passing = Scores(sampled.passing), others = Scores(sampled.others);
    const float nearest = *std::max_element(passing.begin(), passing.end());
    const auto nearer = std::count_if(others.begin(), others.end(), [&](float score) { return score > nearest; });
    return static_cast<double>(nearer) > too_many;
  }

  std::vector<float> Scores(const std::vector<uint32_t>& rows) const {
    std::vector<float> scores(rows.size());
    input_.score(rows.data(), rows.size(), scores.data());
    return scores;
  }

  const PlanInput& input_;
  const SearchRequest& request_;
  const PinnedSegment& pinned_;
  const Segment& segment_;
  const PassingRows passing_;
  BreadthReason reason_ = BreadthReason::kExact;
};

}  // namespace

SegmentSearchPlan PlanSegment(const PlanInput& input) {
  LC_DCHECK(input.scoped.VisibleRows(input.segment) > 0);
  return Planner(input).Plan();
}

}  // namespace lightcone
