// Probes of the inverted lists of a segment.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "base/status.h"
#include "index/ivf/lists.h"
#include "index/ivf/pq_codes.h"
#include "index/rows/measured_recall.h"
#include "index/search/leg_search.h"

namespace lightcone {
namespace {

constexpr size_t kScoresAtOnce = 32;   // scores compared with the floor in one go; divides kRowsABlock
constexpr int64_t kPqRankedMin = 512;  // rows that a probe by pq codes ranks for kCalibrationK + 1 results

// Adds the accepted rows of a list to the best by pq codes. `score` is the score of the list's centre.
void ProbePq(const ScopedRequest& scoped, const PinnedSegment& pinned, uint32_t list, float score, const PqQuery& pq,
             BestRows& best) {
  const Lists& lists = *pinned.segment->lists();
  std::array<float, kRowsABlock> scores;
  for (int64_t begin = lists.begin(list); begin < lists.end(list); begin += kRowsABlock) {
    const size_t n = static_cast<size_t>(std::min(kRowsABlock, lists.end(list) - begin));
    pq.Score(begin, n, score, lists.bias(list), scores.data());
    for (size_t i = 0; i < n; ++i) {
      if (!best.Wants(scores[i])) continue;
      const uint32_t row = static_cast<uint32_t>(begin) + static_cast<uint32_t>(i);
      if (scoped.Accepts(pinned, row)) best.Add({scores[i], row});
    }
  }
}

}  // namespace

// Scans the lists nearest to the query: as many as planned, and more while these hold too few rows. What other segments
// gave does not count: recall was measured with this segment alone, where a probe passes by empty lists.
absl::Status LegSearch::Probe(uint32_t index, const SegmentSearchPlan& plan) {
  const Lists& lists = *segment(index).segment->lists();
  const PqCodes* const pq = segment(index).segment->pq();
  const size_t probes = static_cast<size_t>(plan.breadth);
  std::vector<float> scores(lists.count());
  lists.Score(query(), scores.data());
  result_.rows_scored += lists.count();
  std::vector<uint32_t> order(lists.count());
  std::iota(order.begin(), order.end(), 0u);
  const auto nearer = [&scores](uint32_t x, uint32_t y) { return scores[x] > scores[y]; };
  const auto planned_end = order.begin() + plan.breadth;
  std::nth_element(order.begin(), planned_end, order.end(), nearer);
  std::sort(order.begin(), planned_end, nearer);
  std::optional<PqQuery> pq_query;
  if (pq != nullptr) pq_query.emplace(*pq, query());
  const int ef = request().ef > 0 ? request().ef : scoped_.scope.ef_default;
  // Scores by pq codes have no bound: vectors rank as many rows a result as when recall was measured.
  const int64_t ranked = (kPqRankedMin * k_ + kCalibrationK) / (kCalibrationK + 1);
  BestRows best(static_cast<size_t>(std::max<int64_t>(ef, ranked)));
  int64_t rows = 0, check_at = kRowsBetweenChecks;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool enough = pq != nullptr ? best.found() >= static_cast<size_t>(k_)
                                      : rows >= std::max<int64_t>(k_, kCalibrationK + 1) &&
                                            candidates_.floor() != -std::numeric_limits<double>::infinity();
    if (i >= probes && enough) break;
    if (i == probes) std::sort(planned_end, order.end(), nearer);
    if (pq != nullptr) {
      ProbePq(scoped_, segment(index), order[i], scores[order[i]], *pq_query, best);
    } else {
      ProbeRows(index, lists.begin(order[i]), lists.end(order[i]));
    }
    rows += lists.end(order[i]) - lists.begin(order[i]);
    if (rows < check_at) continue;
    check_at = rows + kRowsBetweenChecks;
    LC_RETURN_IF_ERROR(scoped_.Interrupted());
  }
  result_.rows_scored += rows;
  std::vector<uint32_t> best_rows;
  for (const ScoredRow& row : best.rows()) best_rows.push_back(row.row);
  TakeByVectors(index, best_rows);
  return absl::OkStatus();
}

void LegSearch::ProbeRows(uint32_t index, int64_t begin, int64_t end) {
  const CodeBlock* const codes = segment(index).codes();
  const RowBlock& block = segment(index).segment->block();
  std::array<CodeHit, kRowsABlock> hits;
  std::array<float, kRowsABlock> scores{};
  for (; begin < end; begin += kRowsABlock) {
    const size_t first = static_cast<size_t>(begin);
    const size_t n = static_cast<size_t>(std::min(kRowsABlock, end - begin));
    if (codes != nullptr) {
      const size_t found = ScanCodes(*coded_query_, codes->rows + first * codes->stride, codes->stride, n,
                                     static_cast<float>(floor()), hits.data());
      TakeCodeHits(index, begin, {hits.data(), found});
      continue;
    }
    ScoreRows(query(), block.rows + first * block.stride, block.stride, block.factors + begin, n, scores.data());
    for (size_t chunk = 0; chunk < n; chunk += kScoresAtOnce) {
      const float least = LeastScore();
      int any = 0;  // scores behind the n-th only cost time
      for (size_t i = 0; i < kScoresAtOnce; ++i) any |= static_cast<int>(scores[chunk + i] >= least);
      if (any == 0) continue;
      for (size_t i = chunk; i < std::min(chunk + kScoresAtOnce, n); ++i) {
        TakeRow(index, static_cast<uint32_t>(first + i), scores[i]);
      }
    }
  }
}

}  // namespace lightcone
