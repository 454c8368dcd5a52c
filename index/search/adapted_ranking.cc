#include "index/search/adapted_ranking.h"

#include <algorithm>
#include <array>
#include <utility>

#include "geometry/kernels.h"
#include "index/search/passing_rows.h"

namespace lightcone {
namespace {

constexpr int64_t kCandidatesAHit = 4;
// Below this share of rows that pass a filter, carrying whole blocks for the next search costs this one too much.
constexpr double kKeepShareMin = 0.5;
constexpr size_t kAdaptedRowsABatch = 256;
constexpr int64_t kAdaptedLateMax = 4'096;  // rows that are carried after a deadline: most searches' candidates

bool Nearer(const SearchHit& x, const SearchHit& y) {
  return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
}

}  // namespace

bool TopHits::Add(const SearchHit& hit) {
  if (hits_.size() < k_) {
    hits_.push_back(hit);
    std::push_heap(hits_.begin(), hits_.end(), Nearer);
    return true;
  }
  if (!Nearer(hit, hits_.front())) return false;
  std::pop_heap(hits_.begin(), hits_.end(), Nearer);
  hits_.back() = hit;
  std::push_heap(hits_.begin(), hits_.end(), Nearer);
  return true;
}

std::vector<SearchHit> TopHits::Take() {
  std::sort_heap(hits_.begin(), hits_.end(), Nearer);
  return std::exchange(hits_, {});
}

int64_t AdaptedCandidates(const SearchRequest& request) {
  return std::max({kCandidatesAHit * request.k, kAdaptedCandidatesMin, static_cast<int64_t>(request.ef)});
}

absl::Status AdaptedRanking::AddAll() {
  for (const PinnedSegment& pinned : *context_.scope.segments) LC_RETURN_IF_ERROR(AddSegment(pinned));
  return Flush();
}

absl::Status AdaptedRanking::AddSegment(const PinnedSegment& pinned) {
  const SearchRequest& request = context_.request;
  if (pinned.counts->Visible(request.view_generation) == 0) return absl::OkStatus();
  double kept = request.keep ? request.keep_share : 1.0;
  if (request.ids != nullptr) kept = std::min(kept, PassingRows(context_, pinned).Share());
  const bool whole_blocks = kept >= kKeepShareMin;
  if (request.profile) result_.segments.push_back({pinned.segment->id(), SearchPlan::kScan, pinned.rows, kept, false});
  for (int64_t begin = 0; begin < pinned.rows; begin += AdaptedRows::kRowsABlock) {
    LC_RETURN_IF_ERROR(context_.Interrupted());
    const int64_t end = std::min(begin + AdaptedRows::kRowsABlock, pinned.rows);
    if (request.adapted_rows != nullptr && end == begin + AdaptedRows::kRowsABlock) {
      const auto block = whole_blocks ? request.adapted_rows->Get(pinned.segment, begin)
                                      : request.adapted_rows->Find(pinned.segment, begin);
      if (block != nullptr) {
        AddKept(pinned, begin, *block);
        continue;
      }
    }
    for (int64_t row = begin; row < end; ++row) {
      if (!context_.Accepts(pinned, static_cast<uint32_t>(row))) continue;
      LC_RETURN_IF_ERROR(Gather(pinned, static_cast<uint32_t>(row)));
    }
  }
  return absl::OkStatus();
}

void AdaptedRanking::AddKept(const PinnedSegment& pinned, int64_t begin, const AdaptedBlock& block) {
  const BoundQuery& query = *context_.request.adapted_query;
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
    if (block.valid[i] == 0 || scores[i] + error < floor || !context_.Accepts(pinned, row)) continue;
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
  LC_RETURN_IF_ERROR(result_.rows_adapted < kAdaptedLateMax ? context_.Cancelled() : context_.Interrupted());
  const size_t n = waiting_.size();
  const AdaptedBlock block = AdaptBlock(*context_.request.adapter, waiting_vectors_.data(), waiting_vectors_.size() / n,
                                        static_cast<int64_t>(n));
  result_.rows_adapted += static_cast<int64_t>(n);
  const size_t dimension = static_cast<size_t>(context_.request.adapted_query->dimension());
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
    LC_RETURN_IF_ERROR(Gather((*context_.scope.segments)[candidate.segment], candidate.row));
  }
  return Flush();
}

void AdaptedRanking::Offer(const PinnedSegment& pinned, uint32_t row, std::span<const float> adapted) {
  const RowBlock& block = pinned.segment->block();
  ++result_.rows_reranked;
  top_.Add({block.ids[row], context_.request.adapted_query->Distance(adapted), block.uncertainty[row],
            pinned.segment->kind()});
}

SearchResult AdaptedRanking::Take() {
  result_.hits = top_.Take();
  return std::move(result_);
}

}  // namespace lightcone
