// One request over the pinned segments of one generation: what each segment gives goes into one set of candidates,
// whose rows are then ranked. segment_search.cc runs several of them side by side. Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/codes.h"
#include "geometry/kernels.h"
#include "index/graph/graph_walk.h"
#include "index/ivf/lists.h"
#include "index/ivf/pq_codes.h"
#include "index/rows/measured_recall.h"
#include "index/search/adapted_ranking.h"
#include "index/search/candidates.h"
#include "index/search/late_filter.h"
#include "index/search/passing_rows.h"
#include "index/search/passing_search.h"
#include "index/search/search_context.h"
#include "index/search/segment_search.h"

namespace lightcone {

inline constexpr int64_t kRowsABlock = 512;  // one kernel call of a scan; its scores stay in the first cache
inline constexpr size_t kScoresAtOnce = 32;  // compared with the floor before any is looked at; divides kRowsABlock
inline constexpr int64_t kRowsBetweenChecks = 4096;    // rows between looks at deadline and cancellation
inline constexpr int64_t kRerankBetweenChecks = 1024;  // between looks at cancellation
inline constexpr int64_t kLateRowsMax = 16'384;  // candidates that are ranked after a deadline: most searches' own,
inline constexpr int64_t kLateRowsAHit = 4;      // or so many for each that is wanted
// A walk of breadth ef evaluates about this many rows per accepted result, at random addresses; a scan reads rows in
// order, which is about twice as fast per row. Both figures decide only speed, never which rows are found.
inline constexpr double kEvaluationsPerResult = 24;
inline constexpr double kRandomAccessCost = 2;
// Rows that a filter leaves of the probed lists, for each result: with fewer the nearest of them may well lie
// elsewhere.
inline constexpr double kAcceptedPerResult = 32;
inline constexpr int64_t kPqRankedMin = 512;  // rows that a probe by pq codes ranks for kCalibrationK + 1 results

// Walks that are filtered as they go, if at all, or in the end.
enum class WalkKind { kFiltered, kLate };

// Walks of one query, along the graphs of one or of several searches.
struct PlannedWalks {
  std::vector<WalkTask> tasks;
  std::deque<CodeQuery> coded_queries;  // scores of tasks refer to them
};

// One search: Enter for each segment, walks with those that they go together with, Turn and every block of rows for
// each segment that is to be scanned, and Finish in the end.
class LegSearch {
 public:
  explicit LegSearch(const ScopedRequest& scoped)
      : context_{scoped.scope, *scoped.request},
        wanted_(scoped.request->adapter == nullptr ? scoped.request->k : AdaptedCandidates(*scoped.request)),
        candidates_(wanted_) {
    if (scoped.request->query != nullptr) coded_query_.emplace(*scoped.request->query);
  }
  LegSearch(const LegSearch&) = delete;
  LegSearch& operator=(const LegSearch&) = delete;

  const SearchRequest& request() const { return context_.request; }
  const PinnedSegment& segment(uint32_t index) const { return (*context_.scope.segments)[index]; }
  uint32_t segments() const { return static_cast<uint32_t>(context_.scope.segments->size()); }
  absl::Status Interrupted() const { return context_.Interrupted(); }

  // Plans a walk of the segment's graph, or probes its lists, where that is enough; true when it is to be scanned.
  absl::StatusOr<bool> Enter(uint32_t index) {
    const PinnedSegment& pinned = segment(index);
    const int64_t visible = pinned.counts->Visible(request().view_generation);
    if (visible == 0) return false;
    // What a filter leaves may lie where no near list is, and nothing was measured with one: rows without a graph are
    // scanned then, as those of growing segments.
    const bool filtered = request().keep != nullptr || request().ids != nullptr;
    const Lists* const lists = filtered && pinned.segment->provisional() ? nullptr : pinned.segment->lists();
    const Graph* graph = pinned.segment->graph();
    int64_t breadth = request().exact ? 0 : BreadthIn(*pinned.segment);
    double share = std::clamp(request().keep ? request().keep_share : 1.0, 0.0, 1.0) * static_cast<double>(visible) /
                   static_cast<double>(pinned.rows);
    Turn(index);
    if (breadth > 0 && lists != nullptr) {
      if (request().ids != nullptr) share = std::min(share, PassingRows(context_, pinned).Share());
      if (share > 0) {
        LC_ASSIGN_OR_RETURN(const bool done, Probe(index, *lists, breadth, share));
        if (done) Note(index, SearchPlan::kProbe, share, false);
        if (done) return false;
      }
    }
    if (!AllPass(pinned, visible)) {
      LC_ASSIGN_OR_RETURN(const Passed passed, Pass(index, graph == nullptr ? 0 : breadth, /*fell_short=*/false));
      if (passed != Passed::kAll) return passed == Passed::kToScan;
    }
    if (breadth > 0 && graph != nullptr) {
      const int ef = static_cast<int>(std::max(breadth, wanted_));
      const double accepted = share * static_cast<double>(pinned.rows);
      if (kRandomAccessCost * kEvaluationsPerResult * ef < accepted) {
        const auto evaluations_max = static_cast<int64_t>(static_cast<double>(pinned.rows) / kRandomAccessCost);
        walks_.push_back({index, {ef, evaluations_max}, visible, accepted});
        return false;
      }
    }
    Note(index, SearchPlan::kScan, 1, false);
    return true;
  }

  // After a walk of kind kLate that met too few rows that pass; true when the segment is to be scanned.
  absl::StatusOr<bool> EnterAgain(uint32_t index) {
    Turn(index);
    LC_ASSIGN_OR_RETURN(const Passed passed, Pass(index, BreadthIn(*segment(index).segment), /*fell_short=*/true));
    return passed == Passed::kToScan;
  }

  // Adds the walks planned.
  void AddWalks(WalkKind kind, PlannedWalks& all) {
    for (const PlannedWalk& walk : Planned(kind)) {
      const PinnedSegment& pinned = segment(walk.index);
      const Segment& rows = *pinned.segment;
      Turn(walk.index);
      const CodeQuery* coded = nullptr;
      if (pinned.codes() != nullptr) coded = &all.coded_queries.emplace_back(*coded_query_);
      std::function<bool(uint32_t)> accept;
      if (kind == WalkKind::kFiltered && !AllPass(pinned, walk.visible)) {
        accept = [this, &pinned](uint32_t row) { return context_.Accepts(pinned, row); };
      }
      all.tasks.push_back({rows.graph(), ScoredRows{rows.block(), *request().query, pinned.codes(), coded},
                           std::move(accept), walk.limits, walk.weight});
    }
  }

  // Rows begin .. begin + n - 1 of the segment turned to, n <= kRowsABlock, by their codes.
  void ScanCodedBlock(uint32_t index, const CodeBlock& codes, int64_t begin, size_t n) {
    std::array<CodeHit, kRowsABlock> hits;
    const size_t found = ScanCodes(*coded_query_, codes.rows + static_cast<size_t>(begin) * codes.stride, codes.stride,
                                   n, CodeFloor(), hits.data());
    TakeCodeHits(index, begin, {hits.data(), found});
  }

  const CodeQuery& code_query() const { return *coded_query_; }
  // What a row's score by its codes and its error have to reach: the floor's nearest float, slack has room for that.
  float CodeFloor() const { return static_cast<float>(candidates_.floor()); }

  // What a scan of the codes of the rows from `begin` on found.
  void TakeCodeHits(uint32_t index, int64_t begin, std::span<const CodeHit> hits) {
    const PinnedSegment& pinned = segment(index);
    for (const CodeHit& hit : hits) {
      if (double{hit.score} + hit.error < candidates_.floor()) continue;
      const uint32_t row = static_cast<uint32_t>(begin) + hit.row;
      if (context_.Accepts(pinned, row)) candidates_.Add(hit.score, hit.error, index, row);
    }
  }

  // What a row's score by its vector has to reach: a float that no score below it, plus its error, reaches the floor.
  float LeastScore() const {
    const double least = candidates_.floor() - error_;
    const float nearest = static_cast<float>(least);
    return nearest > least ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
  }

  // What a scan of the vectors of the rows from `begin` on found.
  void TakeRowHits(uint32_t index, int64_t begin, std::span<const RowHit> hits) {
    for (const RowHit& hit : hits) TakeRow(index, static_cast<uint32_t>(begin) + hit.row, hit.score);
  }

  // The same rows with the scores of their vectors, kRowsABlock of them; those behind the n-th do not matter.
  void TakeScores(uint32_t index, int64_t begin, size_t n, const float* scores) {
    for (size_t chunk = 0; chunk < n; chunk += kScoresAtOnce) {
      const float least = LeastScore();
      int any = 0;
      for (size_t i = 0; i < kScoresAtOnce; ++i) any |= static_cast<int>(scores[chunk + i] >= least);
      if (any == 0) continue;
      for (size_t i = chunk; i < std::min(chunk + kScoresAtOnce, n); ++i) {
        TakeRow(index, static_cast<uint32_t>(begin) + static_cast<uint32_t>(i), scores[i]);
      }
    }
  }

  // Takes what the walks found, as many as AddWalks added; of rows whose score with its error is below `floor` nothing
  // is needed. Segments whose graph did not give what a scan surely gives go to `again`: of kind kLate they are entered
  // again, others scanned.
  void TakeWalks(WalkKind kind, std::span<const WalkResult> walks, double floor, bool enough,
                 std::vector<uint32_t>& again) {
    const bool late = kind == WalkKind::kLate;
    for (size_t i = 0; i < walks.size(); ++i) {
      const PlannedWalk& planned = Planned(kind)[i];
      result_.rows_scored += walks[i].evaluations;
      const bool all_count = !request().keep && request().ids == nullptr;
      const int64_t wanted = std::min(wanted_, all_count ? planned.visible : wanted_);
      const bool short_of = !late && !enough && static_cast<int64_t>(walks[i].rows.size()) < wanted;
      const bool fell_back = walks[i].gave_up || short_of;
      if (fell_back) again.push_back(planned.index);
      if (fell_back && late) continue;  // EnterAgain notes what is done
      const double rows = static_cast<double>(segment(planned.index).rows);
      Note(planned.index, late ? SearchPlan::kPostFilter : SearchPlan::kWalk, planned.weight / rows, fell_back);
      if (fell_back) continue;
      Turn(planned.index);
      for (const ScoredRow& found : walks[i].rows) {
        const double error = ErrorOf(planned.index, found.score);
        if (!(found.score + error >= std::max(floor, candidates_.floor()))) continue;
        candidates_.Add(found.score, error, planned.index, found.row);
        AskFor(planned.index, found.row);
      }
    }
  }

  // What the `walk`th walk of kind kLate has met, under a number. What one met that gave up is no measure for others:
  // other ways may not meet it again.
  void AddMet(const WalkResult& result, size_t walk, size_t number, std::vector<MetRow>& met) {
    if (result.gave_up) return;
    const uint32_t index = late_[walk].index;
    Turn(index);
    for (const ScoredRow& row : result.rows) met.push_back({row.score, ErrorOf(index, row.score), number, row.row});
  }
  // A row that the `walk`th of those has met.
  bool AcceptsMet(size_t walk, uint32_t row) const { return context_.Accepts(segment(late_[walk].index), row); }

  // The lower ends of what those walks found.
  void AddLowerEnds(WalkKind kind, std::span<const WalkResult> walks, std::vector<double>& ends) {
    for (size_t i = 0; i < walks.size(); ++i) {
      const uint32_t index = Planned(kind)[i].index;
      Turn(index);
      for (const ScoredRow& found : walks[i].rows) ends.push_back(found.score - ErrorOf(index, found.score));
    }
  }

  // Whether a device may scan for this search: what it finds is not asked about filters, which the CPU asks late.
  bool FitsDevice() const { return !request().keep && request().ids == nullptr; }
  // Rows whose score with its error is below it are not wanted.
  double floor() const { return candidates_.floor(); }
  bool ServesAll(uint32_t index) const {
    const PinnedSegment& pinned = segment(index);
    return AllPass(pinned, pinned.counts->Visible(request().view_generation));
  }
  bool Serves(uint32_t index, uint32_t row) const { return context_.Passes(segment(index), row); }

  // A row that a device found, by codes of its own: its vector is scored in the end.
  void TakeFound(uint32_t index, float score, double error, uint32_t row) {
    if (score + error >= candidates_.floor()) candidates_.Add(score, error, index, row);
    coded_ = true;
  }

  size_t walks(WalkKind kind) const { return Planned(kind).size(); }
  int64_t wanted() const { return wanted_; }
  int64_t visible_to_walks(WalkKind kind) const {
    int64_t rows = 0;
    for (const PlannedWalk& walk : Planned(kind)) rows += walk.visible;
    return rows;
  }

  // What scores of a segment's rows are turned to from here on.
  void Turn(uint32_t index) {
    if (turned_ == index) return;
    turned_ = index;
    const PinnedSegment& pinned = segment(index);
    error_ = query().ScoreErrorMax(pinned.bias_max);
    if (pinned.codes() == nullptr) return;
    coded_query_->TurnTo(*pinned.codes());
    coded_ = true;
  }

  void BeginScan(uint32_t index) {
    Turn(index);
    result_.rows_scored += segment(index).rows;
  }

  const BoundQuery& query() const { return *context_.request.query; }

  // Ranks the candidates. A deadline ends only what is left of several thousand (SearchContext::Cancelled).
  absl::StatusOr<SearchResult> Finish() {
    LC_RETURN_IF_ERROR(Refine());
    if (context_.request.adapter != nullptr) return RankAdapted();
    LC_RETURN_IF_ERROR(Rank());
    return std::move(result_);
  }

 private:
  struct PlannedWalk {
    uint32_t index = 0;
    WalkLimits limits;
    int64_t visible = 0;
    double weight = 0;  // rows that may be found
  };

  const std::vector<PlannedWalk>& Planned(WalkKind kind) const { return kind == WalkKind::kLate ? late_ : walks_; }

  // Searches a segment of which not every row can be a hit; a walk of kind kLate is planned.
  absl::StatusOr<Passed> Pass(uint32_t index, int64_t breadth, bool fell_short) {
    const PinnedSegment& pinned = segment(index);
    const SegmentTurn turn{context_, index,     pinned.codes() != nullptr ? &*coded_query_ : nullptr, error_, wanted_,
                           breadth,  fell_short};
    LateFilter late;
    LC_ASSIGN_OR_RETURN(const Passed passed, SearchPassing(turn, candidates_, result_, late));
    if (passed == Passed::kLate) {
      late_.push_back({index, late.limits, pinned.counts->Visible(request().view_generation),
                       late.share * static_cast<double>(pinned.rows)});
    }
    return passed;
  }

  // A row of the segment turned to with the score of its vector.
  void TakeRow(uint32_t index, uint32_t row, float score) {
    if (score + error_ < candidates_.floor()) return;
    if (context_.Accepts(segment(index), row)) candidates_.Add(score, error_, index, row);
  }

  // What ranking reads of a row; it comes while others are looked at.
  void AskFor(uint32_t index, uint32_t row) const {
    constexpr size_t kOfVector = 512;  // bytes, the rest follows
    const RowBlock& block = segment(index).segment->block();
    Prefetch(block.rows + row * block.stride, std::min(kOfVector, block.stride * sizeof(float)));
    Prefetch(block.factors + row, sizeof(RowFactors));
    Prefetch(block.ids + row, sizeof(*block.ids));
    Prefetch(block.uncertainty + row, sizeof(*block.uncertainty));
  }

  // Whether every row may be a hit, so that none has to be asked. A row's state is another place in memory.
  bool AllPass(const PinnedSegment& pinned, int64_t visible) const {
    return visible == pinned.rows && !request().keep && request().ids == nullptr;
  }

  void Note(uint32_t index, SearchPlan plan, double share, bool fell_back) {
    if (!request().profile) return;
    result_.segments.push_back({segment(index).segment->id(), plan, segment(index).rows, share, fell_back});
  }

  // Of a score of the segment turned to.
  double ErrorOf(uint32_t index, float score) const {
    const CodeBlock* const codes = segment(index).codes();
    return codes == nullptr ? error_ : coded_query_->ErrorOf(score, codes->error_max);
  }

  // Of a walk of the segment, or of a probe of its lists; 0: it has to be scanned.
  int64_t BreadthIn(const Segment& segment) const {
    const SearchRequest& request = context_.request;
    if (segment.lists() != nullptr) {
      if (request.target_recall > 0) return ProbesFor(segment.measured(), request.target_recall, wanted_);
      if (segment
              .provisional()) {  // `nprobe` is about the collection's own lists, which are others: no less is read here
        return std::max(request.nprobe, DefaultProbes(segment.measured(), wanted_, kProvisionalRecall));
      }
      if (request.nprobe > 0) return request.nprobe;
      const int by_default = context_.scope.nprobe_default;
      return by_default > 0 ? by_default : DefaultProbes(segment.measured(), wanted_);
    }
    if (request.target_recall > 0) return BreadthFor(segment.measured(), request.target_recall, wanted_);
    return request.ef > 0 ? request.ef : context_.scope.ef_default;
  }

  // Scans the `nprobe` lists that are nearest to the query; more where so few rows are accepted (`share` of them) that
  // these hold less than kAcceptedPerResult a result, and while not even `wanted_` rows are known. False where that
  // would be a scan of everything.
  absl::StatusOr<bool> Probe(uint32_t index, const Lists& lists, int64_t nprobe, double share) {
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    const PqCodes* const pq = pinned.segment->pq();
    const double rows_a_list = static_cast<double>(pinned.rows) / lists.count();
    const double needed = kAcceptedPerResult * static_cast<double>(wanted_) / (share * rows_a_list);
    if (std::max(static_cast<double>(nprobe), needed) >= lists.count()) return false;
    const size_t probes = static_cast<size_t>(std::max(nprobe, static_cast<int64_t>(needed)));
    std::vector<float> scores(lists.count());
    lists.Score(*context_.request.query, scores.data());
    result_.rows_scored += lists.count();
    std::vector<uint32_t> order(lists.count());
    std::iota(order.begin(), order.end(), 0u);
    const auto nearer = [&scores](uint32_t x, uint32_t y) { return scores[x] > scores[y]; };
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(probes), order.end(), nearer);
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(probes), nearer);
    std::optional<PqQuery> pq_query;
    if (pq != nullptr) pq_query.emplace(*pq, query());
    const int ef = context_.request.ef > 0 ? context_.request.ef : context_.scope.ef_default;
    // Scores by pq codes have no bound: as many rows a result are ranked by their vectors as when recall was measured.
    const int64_t ranked = (kPqRankedMin * wanted_ + kCalibrationK) / (kCalibrationK + 1);
    BestRows best(static_cast<size_t>(std::max<int64_t>(ef, ranked)));
    int64_t rows = 0, check_at = kRowsBetweenChecks;
    for (size_t i = 0; i < order.size(); ++i) {
      const bool enough = pq != nullptr ? best.found() >= static_cast<size_t>(wanted_)
                                        : candidates_.floor() != -std::numeric_limits<double>::infinity();
      if (i >= probes && enough) break;
      if (i == probes) std::sort(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(), nearer);
      if (pq != nullptr) {
        ScanPq(index, lists, order[i], scores[order[i]], *pq_query, best);
      } else {
        ScanRows(index, lists.begin(order[i]), lists.end(order[i]));
      }
      rows += lists.end(order[i]) - lists.begin(order[i]);
      if (rows < check_at) continue;
      check_at = rows + kRowsBetweenChecks;
      LC_RETURN_IF_ERROR(context_.Interrupted());
    }
    result_.rows_scored += rows;
    AddByVectors(index, best.rows());
    return true;
  }

  void ScanPq(uint32_t index, const Lists& lists, uint32_t list, float score, const PqQuery& pq, BestRows& best) const {
    const PinnedSegment& pinned = (*context_.scope.segments)[index];
    std::array<float, kRowsABlock> scores;
    for (int64_t begin = lists.begin(list); begin < lists.end(list); begin += kRowsABlock) {
      const size_t n = static_cast<size_t>(std::min(kRowsABlock, lists.end(list) - begin));
      pq.Score(begin, n, score, lists.bias(list), scores.data());
      for (size_t i = 0; i < n; ++i) {
        if (!best.Wants(scores[i])) continue;
        const uint32_t row = static_cast<uint32_t>(begin) + static_cast<uint32_t>(i);
        if (context_.Accepts(pinned, row)) best.Add({scores[i], row});
      }
    }
  }

  // Rows that were found by scores without a bound, by those of their vectors.
  void AddByVectors(uint32_t index, const std::vector<ScoredRow>& rows) {
    const RowBlock& block = (*context_.scope.segments)[index].segment->block();
    std::vector<uint32_t> ids;
    for (const ScoredRow& row : rows) ids.push_back(row.row);
    std::vector<float> scores(ids.size());
    ScoreRowsGathered(query(), block.rows, block.stride, block.factors, ids.data(), ids.size(), scores.data());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (scores[i] + error_ >= candidates_.floor()) candidates_.Add(scores[i], error_, index, ids[i]);
    }
    result_.rows_refined += static_cast<int64_t>(ids.size());
  }

  void ScanRows(uint32_t index, int64_t begin, int64_t end) {
    const PinnedSegment& pinned = segment(index);
    const RowBlock& block = pinned.segment->block();
    std::array<float, kRowsABlock> scores{};
    for (; begin < end; begin += kRowsABlock) {
      const size_t n = static_cast<size_t>(std::min(kRowsABlock, end - begin));
      if (pinned.codes() != nullptr) {
        ScanCodedBlock(index, *pinned.codes(), begin, n);
        continue;
      }
      ScoreRows(query(), block.rows + static_cast<size_t>(begin) * block.stride, block.stride, block.factors + begin, n,
                scores.data());
      TakeScores(index, begin, n, scores.data());
    }
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
      LC_RETURN_IF_ERROR(StillWanted(static_cast<int64_t>(begin)));
      const PinnedSegment& pinned = (*context_.scope.segments)[index];
      const RowBlock& block = pinned.segment->block();
      const double error = context_.request.query->ScoreErrorMax(pinned.bias_max);
      ScoreRowsGathered(*context_.request.query, block.rows, block.stride, block.factors, ids.data(), n, scores.data());
      for (size_t i = 0; i < n; ++i) {
        if (scores[i] + error >= candidates_.floor()) candidates_.Add(scores[i], error, index, ids[i]);
      }
      begin += n;
    }
    result_.rows_refined += static_cast<int64_t>(coarse.size());
    return absl::OkStatus();
  }

  absl::StatusOr<SearchResult> RankAdapted() {
    AdaptedRanking ranking(context_);
    LC_RETURN_IF_ERROR(ranking.Add(candidates_.Take()));
    SearchResult ranked = ranking.Take();
    ranked.segments = std::move(result_.segments);
    ranked.rows_scored += result_.rows_scored;
    ranked.rows_refined += result_.rows_refined;
    return ranked;
  }

  absl::Status Rank() {
    const std::vector<Candidate> rows = candidates_.Take();
    TopHits top(context_.request.k);
    int64_t ranked = 0;
    for (const Candidate& candidate : rows) {
      if (ranked % kRerankBetweenChecks == kRerankBetweenChecks - 1) LC_RETURN_IF_ERROR(StillWanted(ranked));
      const Segment& segment = *(*context_.scope.segments)[candidate.segment].segment;
      const RowBlock& block = segment.block();
      const double distance = context_.request.query->Distance(segment.row(candidate.row));
      if (!std::isfinite(distance)) {  // No vector that was let in: sorting could not bear it.
        segment.MarkDamaged();
        continue;
      }
      top.Add({block.ids[candidate.row], distance, block.uncertainty[candidate.row], segment.kind()});
      ++ranked;
    }
    result_.rows_reranked = ranked;
    result_.hits = top.Take();
    return absl::OkStatus();
  }

  // What is left to do with candidates is little, unless very many rows are as near as the k-th.
  absl::Status StillWanted(int64_t handled) const {
    const int64_t most = std::max(kLateRowsMax, kLateRowsAHit * wanted_);
    return handled < most ? context_.Cancelled() : context_.Interrupted();
  }

  const SearchContext context_;
  std::vector<PlannedWalk> walks_, late_;
  std::optional<uint32_t> turned_;
  double error_ = 0;      // of float32 scores in the segment turned to
  const int64_t wanted_;  // rows that the segments give between them: k, or those to be carried
  std::optional<CodeQuery> coded_query_;
  CandidateSet candidates_;
  bool coded_ = false;  // some candidates are there by their codes
  SearchResult result_;
};

}  // namespace lightcone
