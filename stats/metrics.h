// Retrieval metrics of the papers (docs/reference/evaluation.md): CMC@k, mAP, P_com, P_up, AUROC.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

struct RankingMetrics {
  std::vector<double> cmc;                // share of valid queries with a same-label item in the first k, one per k
  double map = 0;                         // mean average precision over valid queries
  std::vector<std::optional<double>> ap;  // per query; empty where nothing relevant exists
  std::int64_t valid_queries = 0;         // queries with at least one relevant item; 0 makes cmc and map 0
};

// Ranks (from 1, ascending) of the items that share the query's label, ordered by distance, then by index, with
// `own_index` left out of the ranking. The gallery is not sorted: O(n log r) for r relevant items of n.
// REQUIRES: spans of one length, no NaN.
std::vector<std::size_t> RelevantRanks(std::int64_t query_label, std::span<const double> distances,
                                       std::span<const std::int64_t> gallery_labels,
                                       std::optional<std::size_t> own_index);
std::vector<std::size_t> RelevantRanks(std::int64_t query_label, std::span<const float> distances,
                                       std::span<const std::int64_t> gallery_labels,
                                       std::optional<std::size_t> own_index);

// What a query's ranking comes to.
struct QueryRanking {
  std::size_t first = 0;  // rank of the first relevant item, from 1; 0: nothing relevant exists
  double ap = 0;          // average precision
};
// From the ranks of its relevant items (RelevantRanks).
QueryRanking SummariseRanks(std::span<const std::size_t> relevant_ranks);

// One query at a time, so that no distance matrix has to exist.
class RankingAccumulator {
 public:
  // `ks`: the k of CMC@k, each >= 1.
  explicit RankingAccumulator(std::vector<int> ks) : ks_(std::move(ks)), hits_(ks_.size(), 0) {}

  // Adds a query whose ranked list is `labels` in rank order (its own item already left out). Relevant = equal label.
  void AddRanked(std::int64_t query_label, std::span<const std::int64_t> labels);

  // Adds a query from its distances to the whole gallery (smaller is nearer, ties by index); `own_index` is left out of
  // the ranking. The spans have one length.
  void AddDistances(std::int64_t query_label, std::span<const double> distances,
                    std::span<const std::int64_t> gallery_labels, std::optional<std::size_t> own_index);
  void AddDistances(std::int64_t query_label, std::span<const float> distances,
                    std::span<const std::int64_t> gallery_labels, std::optional<std::size_t> own_index);

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

// From a row-major matrix of query_labels.size() x gallery_labels.size() distances. `exclude_own`: queries and gallery
// are the same images, item i is left out of query i's ranking (needs equal sizes).
// kInvalidArgument for a matrix of the wrong size or k < 1.
absl::StatusOr<RankingMetrics> RankDistances(std::span<const double> distances,
                                             std::span<const std::int64_t> query_labels,
                                             std::span<const std::int64_t> gallery_labels, bool exclude_own,
                                             std::vector<int> ks);

// The same with the rows made one at a time: fill(query, out) writes gallery_labels.size() distances.
absl::StatusOr<RankingMetrics> RankRows(const std::function<void(std::size_t, std::span<float>)>& fill,
                                        std::span<const std::int64_t> query_labels,
                                        std::span<const std::int64_t> gallery_labels, bool exclude_own,
                                        std::vector<int> ks);

// P_com = (M(new;old) - M(old;old)) / (M(*;*) - M(old;old)); empty where the denominator is 0.
std::optional<double> PCom(double cross, double old_self, double base_self);

// P_com of every pair of a chain of n models, oldest first (HBCT, sequential updates; row = query model). `measures`
// is row major n x n: [i][j] = M of queries by model i on a gallery by model j; `alone` has n: M(*;*) of a model
// trained alone on the data of model i. Result [i][j] for i > j is PCom(M(i;j), M(j;j), alone[i]); elsewhere empty.
// kInvalidArgument for sizes that do not fit.
absl::StatusOr<std::vector<std::optional<double>>> PComMatrix(std::span<const double> measures,
                                                              std::span<const double> alone);

// P_up = (M(new;new) - M(*;*)) / M(*;*) (equation 15 with its typo mended); empty where the denominator is 0.
std::optional<double> PUp(double new_self, double base_self);

// Area under the ROC curve: chance that a positive scores above a negative, ties count 1/2. Empty without both kinds.
// REQUIRES: spans of one length.
std::optional<double> Auroc(std::span<const double> scores, std::span<const std::uint8_t> positive);

}  // namespace lightcone
