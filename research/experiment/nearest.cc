#include <algorithm>
#include <limits>
#include <span>

#include "base/status.h"
#include "geometry/kernels.h"
#include "research/experiment/measure.h"

namespace lightcone {

absl::StatusOr<std::vector<int64_t>> NearestItems(const Space& query_space, const Space& item_space,
                                                  const std::vector<float>& queries, const std::vector<float>& items) {
  constexpr size_t kBlock = 64;
  const size_t d = static_cast<size_t>(item_space.dimension), n = items.size() / d, count = queries.size() / d;
  std::vector<RowFactors> factors;
  for (size_t i = 0; i < n; ++i) {
    const std::span<const float> row(items.data() + i * d, d);
    LC_RETURN_IF_ERROR(CheckVector(item_space, row, StrCat("gallery[", i, "]")));
    factors.push_back(FactorsOf(item_space, row));
  }
  std::vector<int64_t> nearest;
  std::vector<BoundQuery> bound;
  std::vector<float> scores(kBlock * n);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    bound.clear();
    for (size_t q = begin; q < std::min(count, begin + kBlock); ++q) {
      LC_ASSIGN_OR_RETURN(BoundQuery query, BoundQuery::Make(query_space, item_space, {queries.data() + q * d, d}));
      bound.push_back(std::move(query));
    }
    ScoreRowsBatch(QueryBatch(std::span<const BoundQuery>(bound)), items.data(), d, factors.data(), n, scores.data(),
                   n);
    for (size_t q = 0; q < bound.size(); ++q) {
      float* const row = scores.data() + q * n;
      if (begin + q < n) row[begin + q] = -std::numeric_limits<float>::infinity();
      nearest.push_back(std::max_element(row, row + n) - row);
    }
  }
  return nearest;
}

}  // namespace lightcone
