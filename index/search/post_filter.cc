#include "index/search/post_filter.h"

#include <algorithm>

#include "index/rows/scored_row.h"
#include "index/search/plan_cost.h"

namespace lightcone {

std::optional<std::vector<WalkedRow>> NearestAccepted(std::vector<WalkedRow> found, int64_t k, LowerEnds& ends,
                                                      absl::FunctionRef<bool(const WalkedRow&)> accepts) {
  std::sort(found.begin(), found.end(), Better);
  double error_max = 0;
  for (const WalkedRow& row : found) error_max = std::max(error_max, row.error);
  // Rows that no walk has found are no better than the worst row found.
  const bool all_worse = !found.empty() && found.back().score + error_max < ends.floor();
  const size_t least = all_worse ? 0 : static_cast<size_t>(LeastOfPostFilter(k));
  LowerEnds with = ends;
  std::vector<WalkedRow> accepted;
  accepted.reserve(std::max(least, static_cast<size_t>(std::max<int64_t>(1, k))) * 2);
  for (const WalkedRow& row : found) {
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
