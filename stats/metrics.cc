#include "stats/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/dcheck.h"

namespace lightcone {
std::vector<std::size_t> RelevantRanks(std::int64_t query_label, std::span<const double> distances,
                                       std::span<const std::int64_t> labels, std::optional<std::size_t> own_index) {
  LC_DCHECK(distances.size() == labels.size());
  // Others that stand before relevant item j, but not before j - 1, raise the rank of j and of all after j. A binary
  // search without branches finds j by distance alone, and only an equal distance needs the index.
  using Item = std::pair<double, std::size_t>;
  std::vector<Item> relevant;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == query_label && i != own_index) relevant.emplace_back(distances[i], i);
  }
  if (relevant.empty()) return {};
  std::sort(relevant.begin(), relevant.end());
  const std::size_t count = relevant.size();
  std::vector<double> sorted(count);
  for (std::size_t j = 0; j < count; ++j) sorted[j] = relevant[j].first;
  std::vector<std::size_t> before(count + 1, 0);  // the last place counts items behind every relevant one
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == query_label || i == own_index) continue;
    const double distance = distances[i];
    const double* first = sorted.data();
    for (std::size_t n = count; n > 1; n -= n / 2) first += first[n / 2 - 1] < distance ? n / 2 : 0;
    std::size_t place = static_cast<std::size_t>(first - sorted.data()) + (*first < distance ? 1 : 0);
    if (place < count && sorted[place] == distance) {
      place = std::upper_bound(relevant.begin(), relevant.end(), Item(distance, i)) - relevant.begin();
    }
    ++before[place];
  }
  before.pop_back();
  std::partial_sum(before.begin(), before.end(), before.begin());
  for (std::size_t j = 0; j < count; ++j) before[j] += j + 1;
  return before;
}

QueryRanking SummariseRanks(std::span<const std::size_t> relevant_ranks) {
  if (relevant_ranks.empty()) return {};
  constexpr std::size_t kFirst = 10;
  const auto gain = [](std::size_t rank) { return 1 / std::log2(static_cast<double>(rank) + 1); };
  double sum = 0, gained = 0, possible = 0;
  std::size_t among_first = 0;
  for (std::size_t j = 0; j < relevant_ranks.size(); ++j) {
    sum += static_cast<double>(j + 1) / static_cast<double>(relevant_ranks[j]);
    if (j < kFirst) possible += gain(j + 1);
    if (relevant_ranks[j] > kFirst) continue;
    gained += gain(relevant_ranks[j]);
    ++among_first;
  }
  const auto count = static_cast<double>(relevant_ranks.size());
  const double findable = std::min(count, static_cast<double>(kFirst));
  return {relevant_ranks[0], sum / count, gained / possible, static_cast<double>(among_first) / findable};
}

void RankingAccumulator::AddRanked(std::int64_t query_label, std::span<const std::int64_t> labels) {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == query_label) ranks.push_back(i + 1);
  }
  Add(SummariseRanks(ranks));
}

void RankingAccumulator::Add(const QueryRanking& query) {
  if (query.first == 0) {
    ap_.emplace_back();
    return;
  }
  ap_.emplace_back(query.ap);
  ap_sum_ += query.ap;
  ++valid_;
  for (std::size_t k = 0; k < ks_.size(); ++k) {
    if (query.first <= static_cast<std::size_t>(ks_[k])) ++hits_[k];
  }
}

RankingMetrics RankingAccumulator::Finish() const {
  RankingMetrics out;
  out.ap = ap_;
  out.valid_queries = valid_;
  const double denominator = valid_ > 0 ? static_cast<double>(valid_) : 1.0;
  for (std::int64_t hits : hits_) out.cmc.push_back(static_cast<double>(hits) / denominator);
  out.map = ap_sum_ / denominator;
  return out;
}

std::optional<double> PCom(double cross, double old_self, double base_self) {
  if (base_self == old_self) return std::nullopt;
  return (cross - old_self) / (base_self - old_self);
}

std::optional<double> PUp(double new_self, double base_self) {
  if (base_self == 0) return std::nullopt;
  return (new_self - base_self) / base_self;
}

std::optional<double> Auroc(std::span<const double> scores, std::span<const std::uint8_t> positive) {
  LC_DCHECK(scores.size() == positive.size());
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return scores[x] < scores[y]; });
  double rank_sum = 0;  // Mann-Whitney U: ranks of the positives, where ties share their mean rank
  double positives = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double positives_here = 0;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) {
      positives_here += positive[order[end]] != 0 ? 1 : 0;
      ++end;
    }
    rank_sum += positives_here * (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2.0;
    positives += positives_here;
    begin = end;
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  return (rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives);
}

}  // namespace lightcone
