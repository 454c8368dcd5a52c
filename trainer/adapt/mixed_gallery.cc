#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "stats/metrics.h"
#include "trainer/adapt/mixed_gallery_torch.h"
#include "trainer/data/parallel.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kQueryRows = 256;
constexpr uint64_t kOnes = 0x0101010101010101;  // eight bytes of value 1

Tensor Block(const GalleryLeg& leg, int64_t begin, int64_t n) {
  const MetricPoints queries{leg.queries.space.narrow(0, begin, n),
                             leg.queries.time.defined() ? leg.queries.time.narrow(0, begin, n) : Tensor()};
  return MetricDistances(leg.space, queries, leg.items).contiguous();
}

// Both legs' copies of all items but the query's own, nearest first, equal distances by item: 4 item + 2 (relevant) + 1
// (of the second leg). A gallery holds one copy of each item, so one order serves all galleries.
std::vector<uint32_t> OrderOfBoth(const double* first, const double* second, std::span<const int32_t> labels,
                                  size_t query) {
  std::vector<std::pair<double, uint32_t>> copies;
  copies.reserve(2 * labels.size());
  for (size_t j = 0; j < labels.size(); ++j) {
    if (j == query) continue;
    const uint32_t item = static_cast<uint32_t>(4 * j) + (labels[j] == labels[query] ? 2 : 0);
    copies.emplace_back(first[j], item);
    copies.emplace_back(second[j], item + 1);
  }
  std::sort(copies.begin(), copies.end());
  std::vector<uint32_t> order;
  order.reserve(copies.size());
  for (const auto& copy : copies) order.push_back(copy.second);
  return order;
}

// Eight masks side by side, a byte each: [(masks + 7) / 8][items].
std::vector<std::vector<uint64_t>> EightByEight(const std::vector<std::vector<uint8_t>>& masks, size_t items) {
  std::vector<std::vector<uint64_t>> eights((masks.size() + 7) / 8, std::vector<uint64_t>(items, 0));
  for (size_t m = 0; m < masks.size(); ++m) {
    for (size_t j = 0; j < items; ++j) eights[m / 8][j] |= uint64_t{masks[m][j] != 0} << (8 * (m % 8));
  }
  return eights;
}

// The query's ranking in the galleries of eight masks at once. Ranks are counted in bytes, which are added up before
// one can overflow.
std::array<QueryRanking, 8> RankEight(std::span<const uint32_t> order, std::span<const uint64_t> masks) {
  std::array<size_t, 8> rank = {}, hits = {}, first = {};
  std::array<double, 8> sum = {};
  uint64_t counted = 0;
  int steps = 0;
  const auto carry = [&] {
    for (size_t m = 0; m < 8; ++m) rank[m] += counted >> (8 * m) & 0xff;
    counted = 0;
    steps = 0;
  };
  for (const uint32_t copy : order) {
    const uint64_t there = masks[copy >> 2] ^ ((copy & 1) != 0 ? 0 : kOnes);
    counted += there;
    if (++steps < 255 && (copy & 2) == 0) continue;
    carry();
    if ((copy & 2) == 0) continue;
    for (size_t m = 0; m < 8; ++m) {
      if ((there >> (8 * m) & 1) == 0) continue;
      if (hits[m] == 0) first[m] = rank[m];
      sum[m] += static_cast<double>(++hits[m]) / static_cast<double>(rank[m]);
    }
  }
  std::array<QueryRanking, 8> rankings;
  for (size_t m = 0; m < 8; ++m) {
    if (hits[m] > 0) rankings[m] = {first[m], sum[m] / static_cast<double>(hits[m])};
  }
  return rankings;
}

}  // namespace

std::vector<RetrievalFigures> RankTwoLegs(const GalleryLeg& first, const GalleryLeg& second,
                                          std::span<const int32_t> labels,
                                          const std::vector<std::vector<uint8_t>>& masks) {
  LC_DCHECK(labels.size() < size_t{1} << 30);
  torch::NoGradGuard no_grad;
  const int64_t count = static_cast<int64_t>(labels.size());
  const std::vector<std::vector<uint64_t>> eights = EightByEight(masks, labels.size());
  std::vector<RankingAccumulator> rankings(masks.size(), RankingAccumulator({1, 5}));
  for (int64_t begin = 0; begin < count; begin += kQueryRows) {
    const int64_t n = std::min(kQueryRows, count - begin);
    const Tensor a = Block(first, begin, n), b = Block(second, begin, n);
    std::vector<QueryRanking> ranked(static_cast<size_t>(n) * masks.size());
    ParallelFor(n, [&](int64_t i) {
      const size_t query = static_cast<size_t>(begin + i);
      const double* from_a = a.data_ptr<double>() + i * count;
      const double* from_b = b.data_ptr<double>() + i * count;
      const std::vector<uint32_t> order = OrderOfBoth(from_a, from_b, labels, query);
      for (size_t m = 0; m < masks.size(); m += 8) {
        const std::array<QueryRanking, 8> some = RankEight(order, eights[m / 8]);
        std::copy_n(some.begin(), std::min<size_t>(8, masks.size() - m),
                    ranked.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * masks.size() + m));
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
