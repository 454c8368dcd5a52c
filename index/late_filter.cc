#include "index/late_filter.h"

#include <algorithm>

#include "index/beam.h"
#include "index/filter_plan.h"

namespace lightcone {

std::optional<std::vector<MetRow>> NearestAccepted(std::vector<MetRow> met, int64_t wanted, double floor,
                                                   absl::FunctionRef<bool(const MetRow&)> accepts) {
  std::sort(met.begin(), met.end(), Better);
  const bool all_better = !met.empty() && met.back().score + met.back().error < floor;
  const size_t least = all_better ? 0 : static_cast<size_t>(LeastOfPostFilter(wanted));
  const size_t hits = static_cast<size_t>(std::max<int64_t>(1, wanted));
  std::vector<MetRow> accepted;
  double least_score = floor;
  for (const MetRow& row : met) {
    if (accepted.size() >= least && row.score + row.error < least_score) continue;
    if (!accepts(row)) continue;
    accepted.push_back(row);
    if (accepted.size() == hits) least_score = std::max(least_score, row.score - row.error);
  }
  if (accepted.size() < least) return std::nullopt;
  return accepted;
}

}  // namespace lightcone
