#include "index/build/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "geometry/bound_query.h"
#include "geometry/code_kernels.h"
#include "geometry/codes.h"
#include "index/graph/graph_walk.h"
#include "index/ivf/lists.h"
#include "index/search/segment_search.h"

namespace lightcone {
namespace {

constexpr size_t kAskedAtOnce = 8;  // Each query keeps all rows that are equally near for a while.
constexpr int kWalks[] = {10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768};
constexpr int kProbes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768};
constexpr double kRecallEnough = 0.9995;
constexpr float kMoved = 0.1f;   // share of the way to another row
constexpr size_t kPartner = 61;  // that row's place behind the row, among those asked
constexpr int64_t kScoredAtOnce = 512;
constexpr double kErrors = 2;  // standard errors that a measured recall is lowered by

// Nearest rows of each query, the query's own row left out.
using Neighbours = std::vector<std::vector<SearchHit>>;

class Calibration {
 public:
  Calibration(const std::shared_ptr<const Segment>& segment, int64_t rows, float bias_max,
              const std::function<bool()>& stop)
      : stop_(stop) {
    auto counts = std::make_shared<StateCounts>();
    counts->rows = rows;
    segments_.push_back({segment, rows, bias_max, std::move(counts), segment->PinCodes()});
    rows_ = CalibrationRows(rows);
    const Lists* const lists = segment->lists();
    if (lists == nullptr) return;
    for (int64_t& row : rows_) row = lists->by_id()[static_cast<size_t>(row)];
  }

  absl::StatusOr<std::vector<RecallAt>> Run() {
    LC_RETURN_IF_ERROR(BindQueries());
    LC_ASSIGN_OR_RETURN(const Neighbours right, Ask({.exact = true}));
    std::vector<RecallAt> measured;
    const Lists* const lists = segments_[0].segment->lists();
    Neighbours found(queries_.size());
    for (const int breadth : lists == nullptr ? std::span<const int>(kWalks) : std::span<const int>(kProbes)) {
      if (lists != nullptr && breadth >= static_cast<int>(lists->count())) break;  // A probe of all lists is a scan.
      if (lists == nullptr) {
        LC_RETURN_IF_ERROR(WalkPast(breadth, right, found));
      } else {
        LC_ASSIGN_OR_RETURN(found, Ask({.nprobe = breadth}));
      }
      measured.push_back({breadth, LesserRecall(right, found)});
      if (measured.back().recall >= kRecallEnough) break;
    }
    return measured;
  }

  absl::StatusOr<double> RunCodes(size_t breadth) {
    LC_RETURN_IF_ERROR(BindQueries());
    LC_ASSIGN_OR_RETURN(const Neighbours right, Ask({.exact = true}));
    Neighbours best;
    for (const BoundQuery& query : queries_) {
      if (stop_ && stop_()) return absl::CancelledError("measuring codes");
      best.push_back(BestByCodes(query, breadth));
    }
    return LesserRecall(right, best);
  }

 private:
  struct Way {
    bool exact = false;
    int nprobe = 0;
  };

  // A query from each row, and then one from beside each row.
  absl::Status BindQueries() {
    const Segment& segment = *segments_[0].segment;
    const std::vector<int64_t> rows = rows_;
    for (const int64_t row : rows) {
      LC_ASSIGN_OR_RETURN(BoundQuery query, BoundQuery::Make(segment.space(), segment.space(), segment.row(row)));
      queries_.push_back(std::move(query));
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> from = segment.row(rows[i]), to = segment.row(rows[(i + kPartner) % rows.size()]);
      std::vector<float> beside(from.begin(), from.end());
      for (size_t d = 0; d < beside.size(); ++d) beside[d] += kMoved * (to[d] - from[d]);
      auto query = BoundQuery::Make(segment.space(), segment.space(), beside);
      if (!query.ok()) continue;  // Some places are no vectors of the space, such as the origin of a cosine space.
      queries_.push_back(*std::move(query));
      rows_.push_back(rows[i]);
    }
    return absl::OkStatus();
  }

  // The rows with the best scores by their codes, but the query's own row.
  std::vector<SearchHit> BestByCodes(const BoundQuery& query, size_t breadth) const {
    const PinnedSegment& pinned = segments_[0];
    const Segment& segment = *pinned.segment;
    CodeQuery coded(query);
    coded.Bind(*pinned.codes());
    const size_t own = static_cast<size_t>(rows_[static_cast<size_t>(&query - queries_.data())]);
    std::vector<std::pair<float, uint32_t>> scored;
    std::array<uint32_t, kScoredAtOnce> ids;
    std::array<float, kScoredAtOnce> scores;
    for (uint32_t begin = 0; begin < pinned.rows; begin += kScoredAtOnce) {
      const size_t n = static_cast<size_t>(std::min<int64_t>(kScoredAtOnce, pinned.rows - begin));
      std::iota(ids.begin(), ids.end(), begin);
      ScoreCodesGathered(coded, pinned.codes()->rows, pinned.codes()->stride, ids.data(), n, scores.data());
      for (size_t i = 0; i < n; ++i) {
        if (ids[i] != own) scored.emplace_back(std::isnan(scores[i]) ? -HUGE_VALF : scores[i], ids[i]);
      }
    }
    const size_t kept = std::min(breadth, scored.size());
    std::nth_element(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(kept), scored.end(),
                     std::greater<>());
    std::vector<SearchHit> best;
    for (size_t i = 0; i < kept; ++i) {
      const uint32_t row = scored[i].second;
      best.push_back({segment.block().ids[row], query.Distance(segment.row(row)), 0});
    }
    return best;
  }

  absl::StatusOr<Neighbours> Ask(const Way& way) const {
    const Segment& segment = *segments_[0].segment;
    std::vector<SearchRequest> requests(queries_.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].query = &queries_[i];
      requests[i].generation = requests[i].view_generation = segment.generation();
      requests[i].k = kCalibrationK + 1;
      requests[i].exact = way.exact;
      requests[i].nprobe = way.nprobe;
      requests[i].cancelled = &stop_;
    }
    std::vector<ScopedRequest> asked;
    for (const SearchRequest& request : requests) {
      asked.push_back({{&segments_, std::numeric_limits<uint64_t>::max() - 1}, &request});
    }
    Neighbours neighbours;
    for (size_t begin = 0; begin < asked.size(); begin += kAskedAtOnce) {
      const std::span<const ScopedRequest> some{asked.data() + begin, std::min(kAskedAtOnce, asked.size() - begin)};
      for (absl::StatusOr<SearchResult>& result : SearchSegments(some)) {
        LC_RETURN_IF_ERROR(result.status());
        const uint64_t self = segment.block().ids[rows_[neighbours.size()]];
        std::erase_if(result->hits, [self](const SearchHit& hit) { return hit.internal_id == self; });
        if (result->hits.size() > kCalibrationK) result->hits.resize(kCalibrationK);
        neighbours.push_back(std::move(result->hits));
      }
    }
    return neighbours;
  }

  // Searches the graph with this `ef`. The row that serves as query is left out of the graph: its own links would lead
  // to its neighbours, and no other query has such links. Queries that found all of `right` at a lesser `ef` keep what
  // they found: a broader walk expands every row that a narrower one does, in the same order, and more behind them. (Of
  // more rows it returns the best by their codes. Coarse codes may then leave one out, which is rare, and not
  // measured.)
  absl::Status WalkPast(int ef, const Neighbours& right, Neighbours& found) const {
    const Segment& segment = *segments_[0].segment;
    const RowBlock& block = segment.block();
    const CodeBlock* const codes = segments_[0].codes();
    for (size_t i = 0; i < queries_.size(); ++i) {
      if (!found[i].empty() && Share(right[i], found[i]) == 1) continue;
      const BoundQuery& query = queries_[i];
      CodeQuery coded(query);
      if (codes != nullptr) coded.Bind(*codes);
      const ScoredRows score{block, query, codes, &coded};
      LC_ASSIGN_OR_RETURN(
          const WalkResult walk,
          WalkGraph(
              *segment.graph(), score, {ef, std::numeric_limits<int64_t>::max(), rows_[i]},
              [&](uint32_t row) { return row != rows_[i]; },
              [&] { return stop_ && stop_() ? absl::CancelledError("measuring walks") : absl::OkStatus(); }));
      found[i].clear();
      for (const ScoredRow& met : walk.rows) {
        found[i].push_back({block.ids[met.row], query.Distance(segment.row(met.row)), block.uncertainty[met.row]});
      }
    }
    return absl::OkStatus();
  }

  // The share of the right rows that were found; any row that is as near as one of them counts.
  static double Share(const std::vector<SearchHit>& right, const std::vector<SearchHit>& found) {
    if (right.empty()) return 1;
    const double farthest = right.back().distance;
    const auto near =
        std::count_if(found.begin(), found.end(), [&](const SearchHit& hit) { return hit.distance <= farthest; });
    return std::min(1.0, static_cast<double>(near) / static_cast<double>(right.size()));
  }

  // Of queries from rows, or from beside them.
  double LesserRecall(const Neighbours& right, const Neighbours& found) const {
    const size_t asked = CalibrationRows(segments_[0].rows).size();
    const double of_rows = Recall(right, found, 0, asked);
    return right.size() > asked ? std::min(of_rows, Recall(right, found, asked, right.size())) : of_rows;
  }

  // The mean over some queries less two standard errors, because about a hundred queries leave so much open: where a
  // walk finds all or nothing, as among many small clusters, a sample easily misses half of the failures.
  static double Recall(const Neighbours& right, const Neighbours& found, size_t begin, size_t end) {
    double sum = 0, squares = 0, n = 0;
    for (size_t i = begin; i < end; ++i) {
      if (right[i].empty()) continue;
      const double share = Share(right[i], found[i]);
      sum += share;
      squares += share * share;
      ++n;
    }
    if (n < 2) return 0;
    const double mean = sum / n;
    return std::clamp(mean - kErrors * std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1)), 0.0, 1.0);
  }

  const std::function<bool()>& stop_;
  std::vector<PinnedSegment> segments_;
  std::vector<int64_t> rows_;  // of each query the row that it is, or lies beside
  std::vector<BoundQuery> queries_;
};

}  // namespace

absl::StatusOr<std::vector<RecallAt>> MeasureRecall(const std::shared_ptr<const Segment>& segment,
                                                    const std::function<bool()>& stop) {
  const int64_t rows = segment->rows();
  if ((segment->graph() == nullptr && segment->lists() == nullptr) || rows <= kCalibrationK)
    return std::vector<RecallAt>();
  return Calibration(segment, rows, segment->bias_max(), stop).Run();
}

absl::StatusOr<double> MeasureCodes(const std::shared_ptr<const Segment>& segment, int breadth,
                                    const std::function<bool()>& stop) {
  const int64_t rows = segment->rows();
  if (segment->codes() == nullptr || rows <= kCalibrationK) return 1.0;
  return Calibration(segment, rows, segment->bias_max(), stop).RunCodes(static_cast<size_t>(breadth));
}

}  // namespace lightcone
