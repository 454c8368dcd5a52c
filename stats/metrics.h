// Retrieval metrics of the papers (docs/reference/evaluation.md): CMC@k, mAP, P_com, P_up, AUROC.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lightcone {

struct RankingMetrics {
  std::vector<double> cmc;                // shares of valid queries with a relevant item in the first k, by k
  double map = 0;                         // mean average precision over valid queries
  std::vector<std::optional<double>> ap;  // average precision of each query; empty where nothing is relevant
  std::int64_t valid_queries = 0;         // queries with a relevant item; 0 makes cmc and map 0
};

// Ascending ranks, from 1, of the items that share the query's label. Items are ordered by distance, then by index.
// The ranking leaves `own_index` out. The gallery is not sorted: O(n log r) for r relevant items of n.
// REQUIRES: spans of one length, no NaN.
std::vector<std::size_t> RelevantRanks(std::int64_t query_label, std::span<const double> distances,
                                       std::span<const std::int64_t> labels, std::optional<std::size_t> own_index);

// The summary of one query's ranking.
struct QueryRanking {
  std::size_t first = 0;  // rank of the first relevant item, from 1; 0 where nothing is relevant
  double ap = 0;          // average precision
  double ndcg10 = 0;      // normalised discounted cumulative gain of the first 10, each relevant item gaining 1
  double recall10 = 0;    // share of the relevant items, of 10 at most, that are among the first 10
};
// `relevant_ranks` as RelevantRanks returns them.
QueryRanking SummariseRanks(std::span<const std::size_t> relevant_ranks);

// One query at a time, so that no distance matrix has to exist.
class RankingAccumulator {
 public:
  // `ks`: the k of CMC@k, each >= 1.
  explicit RankingAccumulator(std::vector<int> ks) : ks_(std::move(ks)), hits_(ks_.size(), 0) {}

  // Adds a query by the labels of its ranked list, without its own item. An equal label is relevant.
  void AddRanked(std::int64_t query_label, std::span<const std::int64_t> labels);

  // Adds a query whose ranking may have been found on another thread.
  void Add(const QueryRanking& query);

  RankingMetrics Finish() const;

 private:
  std::vector<int> ks_;
  std::vector<std::int64_t> hits_;
  std::vector<std::optional<double>> ap_;
  double ap_sum_ = 0;
  std::int64_t valid_ = 0;
};

// P_com = (M(new;old) - M(old;old)) / (M(*;*) - M(old;old)); empty where the denominator is 0.
std::optional<double> PCom(double cross, double old_self, double base_self);

// P_up = (M(new;new) - M(*;*)) / M(*;*) (equation 15 with its typo mended); empty where the denominator is 0.
std::optional<double> PUp(double new_self, double base_self);

// Area under the ROC curve: chance that a positive scores above a negative, ties count 1/2. Empty without both kinds.
// REQUIRES: spans of one length.
std::optional<double> Auroc(std::span<const double> scores, std::span<const std::uint8_t> positive);

}  // namespace lightcone
