#include "index/search/late_filter.h"

#include <algorithm>

#include "index/rows/scored_row.h"
#include "index/search/plan_cost.h"

namespace lightcone {

std::optional<std::vector<MetRow>> NearestAccepted(std::vector<MetRow> met, int64_t wanted, LowerEnds& ends,
                                                   absl::FunctionRef<bool(const MetRow&)> accepts) {
  std::sort(met.begin(), met.end(), Better);
  double error_max = 0;
  for (const MetRow& row : met) error_max = std::max(error_max, row.error);
  // Rows that no walk has met are no better than the worst of those it has.
  const bool all_worse = !met.empty() && met.back().score + error_max < ends.floor();
  const size_t least = all_worse ? 0 : static_cast<size_t>(LeastOfPostFilter(wanted));
  LowerEnds with = ends;
  std::vector<MetRow> accepted;
  accepted.reserve(std::max(least, static_cast<size_t>(std::max<int64_t>(1, wanted))) * 2);
  for (const MetRow& row : met) {
    if (accepted.size() >= least && row.score + row.error < with.floor()) continue;
    if (!accepts(row)) continue;
    accepted.push_back(row);
    with.Add(row.score - row.error);
  }
  if (accepted.size() < least) return std::nullopt;
  ends = std::move(with);
  return accepted;
}

}  // namespace lightcone
