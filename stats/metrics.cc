#include "stats/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/status.h"

namespace lightcone {
namespace {

// Others that go before relevant item j, but not before j - 1, raise the rank of j and of all after it: a binary search
// without branches finds j by distance alone, and only an equal distance needs the index.
template <typename T>
std::vector<std::size_t> FindRelevantRanks(std::int64_t query_label, std::span<const T> distances,
                                           std::span<const std::int64_t> labels, std::optional<std::size_t> own_index) {
  using Item = std::pair<T, std::size_t>;
  std::vector<Item> relevant;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == query_label && i != own_index) relevant.emplace_back(distances[i], i);
  }
  if (relevant.empty()) return {};
  std::sort(relevant.begin(), relevant.end());
  const std::size_t count = relevant.size();
  std::vector<T> sorted(count);
  for (std::size_t j = 0; j < count; ++j) sorted[j] = relevant[j].first;
  std::vector<std::size_t> before(count + 1, 0);  // the last place takes those that are behind every relevant item
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == query_label || i == own_index) continue;
    const T distance = distances[i];
    const T* first = sorted.data();
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

absl::Status CheckRanking(std::size_t queries, std::size_t items, bool exclude_own, const std::vector<int>& ks) {
  if (exclude_own && queries != items) {
    return InvalidField("gallery_labels", StrCat(items, " labels"),
                        StrCat("exactly ", queries, ", one a query, when a query's own item is left out"));
  }
  for (int k : ks) {
    if (k < 1) return InvalidField("k", StrCat(k), "at least 1");
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status CheckNoNan(std::span<const T> row, std::size_t query) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) return InvalidField(StrCat("distances[", query, "][", i, "]"), "nan", "a number");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::size_t> RelevantRanks(std::int64_t query_label, std::span<const double> distances,
                                       std::span<const std::int64_t> gallery_labels,
                                       std::optional<std::size_t> own_index) {
  return FindRelevantRanks(query_label, distances, gallery_labels, own_index);
}

std::vector<std::size_t> RelevantRanks(std::int64_t query_label, std::span<const float> distances,
                                       std::span<const std::int64_t> gallery_labels,
                                       std::optional<std::size_t> own_index) {
  return FindRelevantRanks(query_label, distances, gallery_labels, own_index);
}

QueryRanking SummariseRanks(std::span<const std::size_t> relevant_ranks) {
  if (relevant_ranks.empty()) return {};
  double sum = 0;
  for (std::size_t j = 0; j < relevant_ranks.size(); ++j) {
    sum += static_cast<double>(j + 1) / static_cast<double>(relevant_ranks[j]);
  }
  return {relevant_ranks[0], sum / static_cast<double>(relevant_ranks.size())};
}

void RankingAccumulator::AddRanked(std::int64_t query_label, std::span<const std::int64_t> labels) {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == query_label) ranks.push_back(i + 1);
  }
  Add(SummariseRanks(ranks));
}

void RankingAccumulator::AddDistances(std::int64_t query_label, std::span<const double> distances,
                                      std::span<const std::int64_t> gallery_labels,
                                      std::optional<std::size_t> own_index) {
  Add(SummariseRanks(RelevantRanks(query_label, distances, gallery_labels, own_index)));
}

void RankingAccumulator::AddDistances(std::int64_t query_label, std::span<const float> distances,
                                      std::span<const std::int64_t> gallery_labels,
                                      std::optional<std::size_t> own_index) {
  Add(SummariseRanks(RelevantRanks(query_label, distances, gallery_labels, own_index)));
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

absl::StatusOr<RankingMetrics> RankDistances(std::span<const double> distances,
                                             std::span<const std::int64_t> query_labels,
                                             std::span<const std::int64_t> gallery_labels, bool exclude_own,
                                             std::vector<int> ks) {
  LC_RETURN_IF_ERROR(CheckRanking(query_labels.size(), gallery_labels.size(), exclude_own, ks));
  if (distances.size() != query_labels.size() * gallery_labels.size()) {
    return InvalidField("distances", StrCat(distances.size(), " numbers"),
                        StrCat("exactly ", query_labels.size(), " x ", gallery_labels.size()));
  }
  RankingAccumulator accumulator(std::move(ks));
  for (std::size_t q = 0; q < query_labels.size(); ++q) {
    const auto row = distances.subspan(q * gallery_labels.size(), gallery_labels.size());
    LC_RETURN_IF_ERROR(CheckNoNan(row, q));
    accumulator.AddDistances(query_labels[q], row, gallery_labels,
                             exclude_own ? std::optional<std::size_t>(q) : std::nullopt);
  }
  return accumulator.Finish();
}

absl::StatusOr<RankingMetrics> RankRows(const std::function<void(std::size_t, std::span<float>)>& fill,
                                        std::span<const std::int64_t> query_labels,
                                        std::span<const std::int64_t> gallery_labels, bool exclude_own,
                                        std::vector<int> ks) {
  LC_RETURN_IF_ERROR(CheckRanking(query_labels.size(), gallery_labels.size(), exclude_own, ks));
  RankingAccumulator accumulator(std::move(ks));
  std::vector<float> row(gallery_labels.size());
  for (std::size_t q = 0; q < query_labels.size(); ++q) {
    fill(q, row);
    LC_RETURN_IF_ERROR(CheckNoNan(std::span<const float>(row), q));
    accumulator.AddDistances(query_labels[q], std::span<const float>(row), gallery_labels,
                             exclude_own ? std::optional<std::size_t>(q) : std::nullopt);
  }
  return accumulator.Finish();
}

std::optional<double> PCom(double cross, double old_self, double base_self) {
  if (base_self == old_self) return std::nullopt;
  return (cross - old_self) / (base_self - old_self);
}

absl::StatusOr<std::vector<std::optional<double>>> PComMatrix(std::span<const double> measures,
                                                              std::span<const double> alone) {
  const std::size_t n = alone.size();
  if (measures.size() != n * n) {
    return InvalidField("measures", StrCat(measures.size(), " numbers"), StrCat("exactly ", n, " x ", n));
  }
  std::vector<std::optional<double>> out(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) out[i * n + j] = PCom(measures[i * n + j], measures[j * n + j], alone[i]);
  }
  return out;
}

std::optional<double> PUp(double new_self, double base_self) {
  if (base_self == 0) return std::nullopt;
  return (new_self - base_self) / base_self;
}

std::optional<double> Auroc(std::span<const double> scores, std::span<const std::uint8_t> positive) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return scores[x] < scores[y]; });
  double rank_sum = 0;  // of the positives, ties sharing their mean rank (Mann-Whitney U)
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
