// Ranks the candidates of a leg: codes, then float32 vectors, then exact distances.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/status.h"
#include "index/search/adapted_ranking.h"
#include "index/search/leg_search.h"
#include "index/search/top_hits.h"

namespace lightcone {
namespace {

constexpr int64_t kRankedBetweenChecks = 1024;  // rows between looks at cancellation
// Candidates that are ranked after a deadline: all of most searches, or so many for each row wanted, up to a bound.
constexpr int64_t kLateRowsMin = 16'384, kLateRowsMax = 65'536;
constexpr int64_t kLateRowsAHit = 4;

// Ranking takes little time, unless very many rows are as near as the k-th.
absl::Status StillWanted(const ScopedRequest& scoped, int64_t k, int64_t handled) {
  return handled < std::clamp(kLateRowsAHit * k, kLateRowsMin, kLateRowsMax) ? scoped.Cancelled()
                                                                             : scoped.Interrupted();
}

}  // namespace

absl::StatusOr<SearchResult> LegSearch::Finish() {
  LC_RETURN_IF_ERROR(status_);
  LC_RETURN_IF_ERROR(Refine());
  if (request().adapter == nullptr) {
    LC_RETURN_IF_ERROR(Rank());
    return std::move(result_);
  }
  AdaptedRanking ranking(scoped_);
  LC_RETURN_IF_ERROR(ranking.Add(candidates_.Take()));
  SearchResult ranked = ranking.Take();
  ranked.segments = std::move(result_.segments);
  ranked.rows_scored += result_.rows_scored;
  ranked.rows_refined += result_.rows_refined;
  return ranked;
}

// Codes leave many candidates; the scores of their vectors leave about as many as are wanted.
absl::Status LegSearch::Refine() {
  if (!any_coded_) return absl::OkStatus();
  std::vector<Candidate> coarse = candidates_.Take();
  std::sort(coarse.begin(), coarse.end(), [](const Candidate& x, const Candidate& y) {
    return x.segment != y.segment ? x.segment < y.segment : x.row < y.row;
  });
  candidates_ = CandidateSet(k_);
  std::array<uint32_t, kRowsABlock> rows;
  for (size_t begin = 0; begin < coarse.size();) {
    const uint32_t index = coarse[begin].segment;
    size_t n = 0;
    while (n < rows.size() && begin + n < coarse.size() && coarse[begin + n].segment == index) {
      rows[n] = coarse[begin + n].row;
      ++n;
    }
    LC_RETURN_IF_ERROR(StillWanted(scoped_, k_, static_cast<int64_t>(begin)));
    TakeByVectors(index, {rows.data(), n});
    begin += n;
  }
  return absl::OkStatus();
}

void LegSearch::TakeByVectors(uint32_t index, std::span<const uint32_t> rows) {
  const RowBlock& block = segment(index).segment->block();
  const double error = query().ScoreErrorMax(segment(index).bias_max);
  std::array<float, kRowsABlock> scores;
  for (size_t begin = 0; begin < rows.size(); begin += scores.size()) {
    const std::span<const uint32_t> some = rows.subspan(begin, std::min(scores.size(), rows.size() - begin));
    ScoreRowsGathered(query(), block.rows, block.stride, block.factors, some.data(), some.size(), scores.data());
    for (size_t i = 0; i < some.size(); ++i) {
      if (scores[i] + error >= candidates_.floor()) candidates_.Add(scores[i], error, index, some[i]);
    }
  }
  result_.rows_refined += static_cast<int64_t>(rows.size());
}

absl::Status LegSearch::Rank() {
  TopHits top(request().k);
  int64_t ranked = 0;
  for (const Candidate& candidate : candidates_.Take()) {
    if (ranked % kRankedBetweenChecks == kRankedBetweenChecks - 1) LC_RETURN_IF_ERROR(StillWanted(scoped_, k_, ranked));
    const Segment& segment = *this->segment(candidate.segment).segment;
    const RowBlock& block = segment.block();
    const double distance = query().Distance(segment.row(candidate.row));
    if (!std::isfinite(distance)) {  // Apply let no such vector in, and no sort could order it.
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

}  // namespace lightcone
