#include "index/search/adapted_ranking.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/kernels.h"
#include "index/search/passing_rows.h"

namespace lightcone {
namespace {

constexpr int64_t kCandidatesAHit = 4;
// Below this share of rows that pass a filter, adapting whole blocks for later searches costs this search too much.
constexpr double kKeepShareMin = 0.5;
constexpr size_t kAdaptedRowsABatch = 256;
constexpr int64_t kAdaptedLateMax = 4'096;  // rows adapted after a deadline: the candidates of most searches

}  // namespace

int64_t AdaptedCandidates(const SearchRequest& request) {
  return std::max({kCandidatesAHit * request.k, kAdaptedCandidatesMin, static_cast<int64_t>(request.ef)});
}

AdaptedRanking::AdaptedRanking(const ScopedRequest& scoped)
    : scoped_(scoped), request_(*scoped.request), top_(request_.k) {
  LC_DCHECK(request_.adapter != nullptr && request_.adapted_query != nullptr);
}

absl::Status AdaptedRanking::AddAll() {
  for (const PinnedSegment& pinned : *scoped_.scope.segments) LC_RETURN_IF_ERROR(AddSegment(pinned));
  return Flush();
}

absl::Status AdaptedRanking::AddSegment(const PinnedSegment& pinned) {
  if (scoped_.VisibleRows(pinned) == 0) return absl::OkStatus();
  double passing = request_.keep ? request_.keep_share : 1.0;
  if (request_.ids != nullptr) passing = std::min(passing, PassingRows(scoped_, pinned).Share());
  const bool whole_blocks = passing >= kKeepShareMin;
  if (request_.profile)
    result_.segments.push_back({pinned.segment->id(), SearchPlan::kScan, pinned.rows, passing, false});
  for (int64_t begin = 0; begin < pinned.rows; begin += AdaptedRows::kRowsABlock) {
    LC_RETURN_IF_ERROR(scoped_.Interrupted());
    const int64_t end = std::min(begin + AdaptedRows::kRowsABlock, pinned.rows);
    if (request_.adapted_rows != nullptr && end == begin + AdaptedRows::kRowsABlock) {
      const auto block = whole_blocks ? request_.adapted_rows->Get(pinned.segment, begin)
                                      : request_.adapted_rows->Find(pinned.segment, begin);
      if (block != nullptr) {
        AddBlock(pinned, begin, *block);
        continue;
      }
    }
    for (int64_t row = begin; row < end; ++row) {
      if (!scoped_.Accepts(pinned, static_cast<uint32_t>(row))) continue;
      LC_RETURN_IF_ERROR(Gather(pinned, static_cast<uint32_t>(row)));
    }
  }
  return absl::OkStatus();
}

void AdaptedRanking::AddBlock(const PinnedSegment& pinned, int64_t begin, const AdaptedBlock& block) {
  const BoundQuery& query = *request_.adapted_query;
  std::array<float, AdaptedRows::kRowsABlock> scores;
  ScoreRows(query, block.rows.data(), block.stride, block.factors.data(), scores.size(), scores.data());
  result_.rows_scored += AdaptedRows::kRowsABlock;
  const double error = query.ScoreErrorMax(block.bias_max);
  // A row whose best possible score is below that of the k-th distance so far cannot be among the k nearest.
  const auto floor_now = [&] {
    const double worst = top_.worst();
    return worst == std::numeric_limits<double>::infinity() ? -worst : query.ScoreOfDistance(worst);
  };
  double floor = floor_now();
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t row = static_cast<uint32_t>(begin) + static_cast<uint32_t>(i);
    if (block.valid[i] == 0 || scores[i] + error < floor || !scoped_.Accepts(pinned, row)) continue;
    Offer(pinned, row, {block.rows.data() + i * block.stride, static_cast<size_t>(query.dimension())});
    floor = floor_now();
  }
}

absl::Status AdaptedRanking::Gather(const PinnedSegment& pinned, uint32_t row) {
  const std::span<const float> z = pinned.segment->row(row);
  waiting_.emplace_back(&pinned, row);
  waiting_vectors_.insert(waiting_vectors_.end(), z.begin(), z.end());
  return waiting_.size() < kAdaptedRowsABatch ? absl::OkStatus() : Flush();
}

absl::Status AdaptedRanking::Flush() {
  if (waiting_.empty()) return absl::OkStatus();
  LC_RETURN_IF_ERROR(result_.rows_adapted < kAdaptedLateMax ? scoped_.Cancelled() : scoped_.Interrupted());
  const size_t n = waiting_.size();
  const AdaptedBlock block =
      AdaptBlock(*request_.adapter, waiting_vectors_.data(), waiting_vectors_.size() / n, static_cast<int64_t>(n));
  result_.rows_adapted += static_cast<int64_t>(n);
  const size_t dimension = static_cast<size_t>(request_.adapted_query->dimension());
  for (size_t i = 0; i < n; ++i) {
    const auto& [pinned, row] = waiting_[i];
    if (block.valid[i] != 0) Offer(*pinned, row, {block.rows.data() + i * block.stride, dimension});
  }
  waiting_.clear();
  waiting_vectors_.clear();
  return absl::OkStatus();
}

absl::Status AdaptedRanking::Add(std::span<const Candidate> rows) {
  for (const Candidate& candidate : rows) {
    LC_RETURN_IF_ERROR(Gather((*scoped_.scope.segments)[candidate.segment], candidate.row));
  }
  return Flush();
}

void AdaptedRanking::Offer(const PinnedSegment& pinned, uint32_t row, std::span<const float> adapted) {
  const RowBlock& block = pinned.segment->block();
  ++result_.rows_reranked;
  top_.Add({block.ids[row], request_.adapted_query->Distance(adapted), block.uncertainty[row], pinned.segment->kind()});
}

SearchResult AdaptedRanking::Take() {
  result_.hits = top_.Take();
  return std::move(result_);
}

absl::StatusOr<SearchResult> RankEveryRow(const ScopedRequest& scoped) {
  AdaptedRanking ranking(scoped);
  LC_RETURN_IF_ERROR(ranking.AddAll());
  return ranking.Take();
}

}  // namespace lightcone
