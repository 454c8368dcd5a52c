#include "index/build/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
    for (const int breadth : lists == nullptr ? std::span<const int>(kWalks) : std::span<const int>(kProbes)) {
      if (lists != nullptr && breadth >= static_cast<int>(lists->count())) break;  // A probe of all lists is a scan.
      LC_ASSIGN_OR_RETURN(const Neighbours found, lists == nullptr ? WalkPast(breadth) : Ask({.nprobe = breadth}));
      measured.push_back({breadth, Recall(right, found)});
      if (measured.back().recall >= kRecallEnough) break;
    }
    return measured;
  }

 private:
  struct Way {
    bool exact = false;
    int nprobe = 0;
  };

  absl::Status BindQueries() {
    const Segment& segment = *segments_[0].segment;
    for (const int64_t row : rows_) {
      LC_ASSIGN_OR_RETURN(BoundQuery query, BoundQuery::Make(segment.space(), segment.space(), segment.row(row)));
      queries_.push_back(std::move(query));
    }
    return absl::OkStatus();
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
  // to its neighbours, and no other query has such links.
  absl::StatusOr<Neighbours> WalkPast(int ef) const {
    const Segment& segment = *segments_[0].segment;
    const RowBlock& block = segment.block();
    const CodeBlock* const codes = segments_[0].codes();
    Neighbours neighbours;
    for (size_t i = 0; i < queries_.size(); ++i) {
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
      std::vector<SearchHit>& hits = neighbours.emplace_back();
      for (const ScoredRow& found : walk.rows) {
        hits.push_back({block.ids[found.row], query.Distance(segment.row(found.row)), block.uncertainty[found.row]});
      }
    }
    return neighbours;
  }

  // The mean over the queries less one standard error, because about a hundred queries leave so much open.
  static double Recall(const Neighbours& right, const Neighbours& found) {
    double sum = 0, squares = 0, n = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      if (right[i].empty()) continue;
      const double farthest = right[i].back().distance;  // any row that is as near counts
      const auto near = std::count_if(found[i].begin(), found[i].end(),
                                      [&](const SearchHit& hit) { return hit.distance <= farthest; });
      const double share = std::min(1.0, static_cast<double>(near) / static_cast<double>(right[i].size()));
      sum += share;
      squares += share * share;
      ++n;
    }
    if (n < 2) return 0;
    const double mean = sum / n;
    return std::clamp(mean - std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1)), 0.0, 1.0);
  }

  const std::function<bool()>& stop_;
  std::vector<PinnedSegment> segments_;
  std::vector<int64_t> rows_;  // rows that serve as queries
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

}  // namespace lightcone
