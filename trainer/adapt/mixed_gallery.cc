#include <algorithm>
#include <vector>

#include "geometry/metrics.h"
#include "trainer/adapt/mixed_gallery_torch.h"
#include "trainer/data/parallel.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kQueryRows = 256;

Tensor Block(const GalleryLeg& leg, int64_t begin, int64_t n) {
  const MetricPoints queries{leg.queries.space.narrow(0, begin, n),
                             leg.queries.time.defined() ? leg.queries.time.narrow(0, begin, n) : Tensor()};
  return MetricDistances(leg.space, queries, leg.items).contiguous();
}

}  // namespace

std::vector<RetrievalFigures> RankTwoLegs(const GalleryLeg& first, const GalleryLeg& second,
                                          std::span<const int32_t> labels,
                                          const std::vector<std::vector<uint8_t>>& masks) {
  torch::NoGradGuard no_grad;
  const int64_t count = static_cast<int64_t>(labels.size());
  const std::vector<int64_t> wide(labels.begin(), labels.end());
  std::vector<RankingAccumulator> rankings(masks.size(), RankingAccumulator({1, 5}));
  for (int64_t begin = 0; begin < count; begin += kQueryRows) {
    const int64_t n = std::min(kQueryRows, count - begin);
    const Tensor a = Block(first, begin, n), b = Block(second, begin, n);
    std::vector<QueryRanking> ranked(static_cast<size_t>(n) * masks.size());
    ParallelFor(n, [&](int64_t i) {
      const size_t query = static_cast<size_t>(begin + i);
      const double* from_a = a.data_ptr<double>() + i * count;
      const double* from_b = b.data_ptr<double>() + i * count;
      std::vector<double> row(labels.size());
      for (size_t m = 0; m < masks.size(); ++m) {
        for (size_t j = 0; j < row.size(); ++j) row[j] = masks[m][j] != 0 ? from_b[j] : from_a[j];
        ranked[static_cast<size_t>(i) * masks.size() + m] =
            SummariseRanks(RelevantRanks(labels[query], std::span<const double>(row), wide, query));
      }
    });
    for (size_t i = 0; i < ranked.size(); ++i) rankings[i % masks.size()].Add(ranked[i]);
  }
  std::vector<RetrievalFigures> figures;
  for (const RankingAccumulator& ranking : rankings) {
    const RankingMetrics metrics = ranking.Finish();
    figures.push_back(
        {metrics.cmc[0], metrics.cmc[1], metrics.map, metrics.valid_queries, count - metrics.valid_queries});
  }
  return figures;
}

}  // namespace lightcone
