// Walks along the graphs of legs: alone, or together with one candidate queue.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "index/search/leg_search.h"
#include "index/search/passing_rows.h"

namespace lightcone {
namespace {

constexpr double kNoFloor = -std::numeric_limits<double>::infinity();

using Legs = std::span<LegSearch* const>;
using InterruptedRef = absl::FunctionRef<absl::Status()>;

// Asks for what ranking reads of a row, while other rows are looked at.
void PrefetchRow(const RowBlock& block, uint32_t row) {
  constexpr size_t kVectorBytesMax = 512;  // the kernel asks for the rest
  Prefetch(block.rows + row * block.stride, std::min(kVectorBytesMax, block.stride * sizeof(float)));
  Prefetch(block.factors + row, sizeof(RowFactors));
  Prefetch(block.ids + row, sizeof(*block.ids));
  Prefetch(block.uncertainty + row, sizeof(*block.uncertainty));
}

// Whether walks of the two may share a candidate queue: legs of one query whose scores mean the same distances.
bool MayShareQueue(const SearchRequest& x, const SearchRequest& y) {
  const Space &a = x.query->item_space(), &b = y.query->item_space();
  if (x.target_recall > 0 || y.target_recall > 0) return false;  // measured by walks that went alone
  return x.query_number == y.query_number && x.query_number != 0 && x.adapter == nullptr && y.adapter == nullptr &&
         a.metric == b.metric && Normalized(a).curvature == Normalized(b).curvature;
}

absl::StatusOr<std::vector<WalkResult>> WalkEach(std::span<const WalkTask> tasks, InterruptedRef interrupted) {
  std::vector<WalkResult> results;
  for (size_t i = 0; i < tasks.size(); ++i) {
    LC_ASSIGN_OR_RETURN(std::vector<WalkResult> one, WalkTogether(tasks.subspan(i, 1), interrupted));
    results.push_back(std::move(one[0]));
  }
  return results;
}

// Walks together, but for those that go alone.
absl::StatusOr<std::vector<WalkResult>> WalkApart(std::span<const WalkTask> tasks, const std::vector<bool>& alone,
                                                  InterruptedRef interrupted) {
  if (std::find(alone.begin(), alone.end(), true) == alone.end()) return WalkTogether(tasks, interrupted);
  std::vector<WalkTask> shared;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!alone[i]) shared.push_back(tasks[i]);
  }
  LC_ASSIGN_OR_RETURN(std::vector<WalkResult> together, WalkTogether(shared, interrupted));
  std::vector<WalkResult> results;
  for (size_t i = 0, next = 0; i < tasks.size(); ++i) {
    if (!alone[i]) {
      results.push_back(std::move(together[next++]));
      continue;
    }
    LC_ASSIGN_OR_RETURN(std::vector<WalkResult> one, WalkTogether(tasks.subspan(i, 1), interrupted));
    results.push_back(std::move(one[0]));
  }
  return results;
}

// Leaves of the walks' rows those that the legs accept. False where walks that went together found too few; of walks
// that went alone, each that found too few gave up.
bool PostFilter(Legs legs, bool alone, std::vector<WalkResult>& walks) {
  std::vector<std::vector<WalkedRow>> groups(alone ? walks.size() : 1);
  std::vector<std::pair<const LegSearch*, uint32_t>> segments;  // segment of each walk
  int64_t k = 0;
  double floor = kNoFloor;
  for (LegSearch* leg : legs) {
    k = std::max(k, leg->k());
    floor = std::max(floor, leg->floor());
    const std::vector<PlannedWalk>& planned = leg->walks(SearchPlan::kPostFilter);
    for (size_t i = 0; i < planned.size(); ++i) {
      const size_t number = segments.size();
      segments.emplace_back(leg, planned[i].index);
      // Rows of a walk that gave up count for nothing: other walks may not find them again.
      if (walks[number].gave_up) continue;
      leg->Bind(planned[i].index);
      for (const ScoredRow& row : walks[number].rows) {
        const double error = leg->ErrorOf(planned[i].index, row.score);
        groups[alone ? number : 0].push_back({row.score, error, number, row.row});
      }
    }
  }
  for (WalkResult& walk : walks) walk.rows.clear();
  const auto accepts = [&](const WalkedRow& row) {
    const auto& [leg, index] = segments[row.walk];
    return leg->scoped().Accepts(leg->segment(index), row.row);
  };
  LowerEnds ends(k, floor);
  std::vector<std::optional<std::vector<WalkedRow>>> accepted(groups.size());
  // Twice where walks went alone: a later walk's rows may show that nothing farther is wanted of an earlier one.
  for (int pass = 0; pass < (alone ? 2 : 1); ++pass) {
    for (size_t group = 0; group < groups.size(); ++group) {
      if (!accepted[group]) accepted[group] = NearestAccepted(groups[group], k, ends, accepts);
    }
  }
  for (size_t group = 0; group < groups.size(); ++group) {
    if (!accepted[group] && !alone) return false;
    if (!accepted[group]) {
      walks[group].gave_up = true;
      continue;
    }
    for (const WalkedRow& row : *accepted[group]) walks[row.walk].rows.push_back({row.score, row.row});
  }
  return true;
}

// Walks together, and where that finds too little each graph alone, which looks much farther, unless every leg filters
// by ids: these have cheaper ways to go on than to ask an expensive filter about every row.
absl::StatusOr<std::vector<WalkResult>> WalkAndPostFilter(Legs legs, bool alone, std::span<const WalkTask> tasks,
                                                          InterruptedRef interrupted) {
  std::vector<WalkResult> together(tasks.size());
  if (!alone && tasks.size() > 1) {
    LC_ASSIGN_OR_RETURN(together, WalkTogether(tasks, interrupted));
    if (PostFilter(legs, /*alone=*/false, together)) return together;
    if (std::all_of(legs.begin(), legs.end(), [](LegSearch* leg) { return leg->request().ids != nullptr; })) {
      for (WalkResult& walk : together) walk.gave_up = true;
      return together;
    }
  }
  LC_ASSIGN_OR_RETURN(std::vector<WalkResult> walked, WalkEach(tasks, interrupted));
  for (size_t i = 0; i < walked.size(); ++i) walked[i].evaluations += together[i].evaluations;
  PostFilter(legs, /*alone=*/true, walked);
  return walked;
}

// Does all legs' walks of one plan. An error ends all legs.
void WalkPlanned(Legs legs, SearchPlan plan) {
  std::vector<WalkTask> tasks;
  std::deque<CodeQuery> coded;
  for (LegSearch* leg : legs) leg->AddTasks(plan, tasks, coded);
  if (tasks.empty()) return;
  const auto interrupted = [&] { return legs[0]->scoped().Interrupted(); };
  std::vector<bool> alone;  // a task each
  for (LegSearch* leg : legs) {
    for (const PlannedWalk& walk : leg->walks(plan)) alone.push_back(walk.plan.alone);
  }
  const bool any_alone = std::find(alone.begin(), alone.end(), true) != alone.end();
  const absl::StatusOr<std::vector<WalkResult>> walked = plan == SearchPlan::kPostFilter
                                                             ? WalkAndPostFilter(legs, any_alone, tasks, interrupted)
                                                             : WalkApart(tasks, alone, interrupted);
  if (!walked.ok()) {
    for (LegSearch* leg : legs) leg->Continue(walked.status());
    return;
  }
  std::span<const WalkResult> rest = *walked;
  std::vector<std::span<const WalkResult>> results;  // results of each leg
  int64_t k = 0, visible = 0;
  std::vector<double> ends;
  for (LegSearch* leg : legs) {
    const std::vector<PlannedWalk>& planned = leg->walks(plan);
    results.push_back(rest.first(planned.size()));
    rest = rest.subspan(planned.size());
    k = std::max(k, leg->k());
    for (size_t i = 0; i < planned.size(); ++i) {
      visible += planned[i].visible;
      leg->Bind(planned[i].index);
      for (const ScoredRow& row : results.back()[i].rows) {
        ends.push_back(row.score - leg->ErrorOf(planned[i].index, row.score));
      }
    }
  }
  if (!legs[0]->scoped().IsFiltered()) k = std::min(k, visible);
  // The k rows come from all legs together: a row below k lower ends is none of them.
  const bool enough = static_cast<int64_t>(ends.size()) >= k;
  double floor = kNoFloor;
  if (enough && k > 0) {
    const auto kth = ends.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(ends.begin(), kth, ends.end(), std::greater<>());
    floor = *kth;
  }
  for (size_t i = 0; i < legs.size(); ++i) legs[i]->TakeWalks(plan, results[i], floor, enough);
}

}  // namespace

void WalkLegs(std::vector<LegSearch*> legs) {
  while (!legs.empty()) {
    std::vector<LegSearch*> together = {legs[0]}, others;
    for (size_t i = 1; i < legs.size(); ++i) {
      (MayShareQueue(legs[0]->request(), legs[i]->request()) ? together : others).push_back(legs[i]);
    }
    legs = std::move(others);
    // Post-filters first: where they fall short, what replaces them gives the other walks better rows to compare with.
    WalkPlanned(together, SearchPlan::kPostFilter);
    std::erase_if(together, [](LegSearch* leg) { return !leg->ok(); });
    if (!together.empty()) WalkPlanned(together, SearchPlan::kWalk);
  }
}

void LegSearch::AddTasks(SearchPlan plan, std::vector<WalkTask>& tasks, std::deque<CodeQuery>& coded) {
  for (const PlannedWalk& walk : walks(plan)) {
    const PinnedSegment& pinned = segment(walk.index);
    Bind(walk.index);
    const CodeQuery* codes = pinned.codes() == nullptr ? nullptr : &coded.emplace_back(*coded_query_);
    std::function<bool(uint32_t)> accept;
    if (plan == SearchPlan::kWalk && !scoped_.EveryRowPasses(pinned)) {
      accept = [this, &pinned](uint32_t row) { return scoped_.Accepts(pinned, row); };
    }
    tasks.push_back({pinned.segment->graph(),
                     ScoredRows{pinned.segment->block(), query(), pinned.codes(), codes},
                     std::move(accept),
                     {static_cast<int>(walk.plan.breadth), walk.plan.evaluations_max},
                     walk.plan.passing_share * static_cast<double>(pinned.rows)});
  }
}

void LegSearch::TakeWalks(SearchPlan plan, std::span<const WalkResult> results, double floor, bool enough) {
  const bool post_filter = plan == SearchPlan::kPostFilter;
  std::vector<const PlannedWalk*> failed;
  for (size_t i = 0; i < results.size(); ++i) {
    const PlannedWalk& walk = walks(plan)[i];
    const uint32_t index = walk.index;
    result_.rows_scored += results[i].evaluations;
    const int64_t k = scoped_.IsFiltered() ? k_ : std::min(k_, walk.visible);
    const bool too_few = !post_filter && !enough && static_cast<int64_t>(results[i].rows.size()) < k;
    const bool fell_back = results[i].gave_up || too_few;
    if (!fell_back || !post_filter) Note(index, walk.plan, fell_back);
    if (fell_back) {
      failed.push_back(&walk);
      continue;
    }
    Bind(index);
    for (const ScoredRow& row : results[i].rows) {
      const double error = ErrorOf(index, row.score);
      if (!(row.score + error >= std::max(floor, candidates_.floor()))) continue;
      candidates_.Add(row.score, error, index, row.row);
      PrefetchRow(segment(index).segment->block(), row.row);
    }
  }
  for (const PlannedWalk* walk : failed) {
    if (!Continue(post_filter ? ReplacePostFilter(*walk) : Scan(walk->index, walk->plan.fallback, 1))) return;
  }
}

// Walks one filtered graph. What a failed walk found stays out: a scan finds it again.
absl::Status LegSearch::WalkAlone(uint32_t index, const SegmentSearchPlan& plan) {
  const PinnedSegment& pinned = segment(index);
  const Graph& graph = *pinned.segment->graph();
  const PassingRows passing(scoped_, pinned);
  const WalkLimits limits{static_cast<int>(plan.breadth), plan.evaluations_max};
  const ScoredRows score = Scorer(index);
  const auto interrupted = [&] { return scoped_.Interrupted(); };
  const auto passes = [&](uint32_t row) { return passing.Passes(row); };
  const auto keeps = [&](uint32_t row) { return scoped_.Keeps(pinned, row); };
  const auto both = [&](uint32_t row) { return passes(row) && keeps(row); };
  LC_ASSIGN_OR_RETURN(const WalkResult walk,
                      plan.plan == SearchPlan::kPassingWalk
                          ? WalkPassing(graph, score, limits, plan.seeds, passes, keeps, interrupted)
                          : WalkGraph(graph, score, limits, both, interrupted));
  result_.rows_scored += walk.evaluations;
  const bool fell_back = walk.gave_up || static_cast<int64_t>(walk.rows.size()) < k_;
  Note(index, plan, fell_back);
  if (fell_back) return Scan(index, plan.fallback, plan.error_share);
  for (const ScoredRow& row : walk.rows) {
    const double error = ErrorOf(index, row.score);
    if (row.score + error >= candidates_.floor()) candidates_.Add(row.score, error, index, row.row);
  }
  return absl::OkStatus();
}

}  // namespace lightcone
